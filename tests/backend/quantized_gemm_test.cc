// Tests products with a quantized operand, which is dequantized while it is packed, against fp64 products and against
// the bits of a product with the dequantized operand. The test unpacks the integers by other code than backend/.
#include <omp.h>

#include <array>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backend/cpu/gemm/dequantize.h"
#include "backend/cpu/gemm/packed_gemm.h"
#include "backend/parallel.h"
#include "base/host_tensor.h"

using namespace amp;
using namespace amp::cpu;

namespace {

enum class Zeros { none, packed, floats };
struct Form {
  const char* name;
  int64_t bits, block;
  Zeros zeros = Zeros::none;
  Codes codes = Codes::unsigned_integers;
};

// A random matrix whose rows begin at whole bytes, and its elements in fp64.
struct Quantized {
  std::vector<uint8_t> data, packed_zeros;
  std::vector<float> scales, zeros;
  std::vector<double> want;
  QuantizedMatrix m;

  Quantized(const Form& f, int64_t rows, int64_t columns, unsigned seed) {
    std::mt19937 random(seed);
    const int64_t blocks = (columns + f.block - 1) / f.block, row_bytes = (blocks * f.block * f.bits + 7) / 8,
                  zero_bytes = (blocks * f.bits + 7) / 8;
    data.assign(static_cast<size_t>(rows * row_bytes), 0);
    packed_zeros.assign(static_cast<size_t>(rows * zero_bytes), 0);
    scales.resize(static_cast<size_t>(rows * blocks));
    zeros.resize(scales.size());
    want.resize(static_cast<size_t>(rows * columns));
    const bool high_first = f.codes == Codes::nf4;
    const auto put = [&](std::vector<uint8_t>& to, int64_t bit, int64_t value) {
      for (int64_t i = 0; i < f.bits; ++i) {
        const int64_t at = bit + i, in_byte = high_first ? 4 - at % 8 / 4 * 4 + i : at % 8;
        to[static_cast<size_t>(at / 8)] |= static_cast<uint8_t>(((value >> i) & 1) << in_byte);
      }
    };
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < blocks; ++k) {
        const auto i = static_cast<size_t>(r * blocks + k);
        scales[i] = static_cast<float>(random() % 1000 + 1) * 1e-3F;
        zeros[i] = static_cast<float>(random() % (1u << f.bits)) + (f.zeros == Zeros::floats ? 0.25F : 0.0F);
        if (f.zeros == Zeros::packed)
          put(packed_zeros, r * zero_bytes * 8 + k * f.bits, static_cast<int64_t>(zeros[i]));
      }
      for (int64_t c = 0; c < columns; ++c) {
        const auto i = static_cast<size_t>(r * blocks + c / f.block);
        const int64_t q = random() % (1u << f.bits);
        put(data, r * row_bytes * 8 + c * f.bits, q);
        const double zero = f.zeros == Zeros::none ? static_cast<double>(1 << (f.bits - 1)) : zeros[i];
        const double value = f.codes == Codes::nf4 ? table_value(Codes::nf4, q)
                             : f.codes == Codes::signed_integers && q >= 1 << (f.bits - 1)
                                 ? static_cast<double>(q - (1 << f.bits)) - zero
                                 : static_cast<double>(q) - zero;
        want[static_cast<size_t>(r * columns + c)] = value * scales[i];
      }
    }
    m.rows = rows, m.columns = columns;
    m.data = data.data(), m.bits = f.bits, m.row_bits = row_bytes * 8;
    m.high_first = high_first;
    m.codes = f.codes;
    m.scales = scales.data();
    m.block_columns = f.block, m.scale_column = 1, m.scale_row = blocks;
    m.zero = static_cast<double>(1 << (f.bits - 1));
    if (f.zeros == Zeros::packed) {
      m.zeros = packed_zeros.data();
      m.zero_bits = f.bits, m.zero_row_bits = zero_bytes * 8;
    } else if (f.zeros == Zeros::floats) {
      m.zeros = zeros.data(), m.zero_dtype = DType::f32;
    }
  }
  HostTensor dense(DType t) const {
    HostTensor out = HostTensor::empty(t, {m.rows, m.columns});
    dequantize(m, 0, m.rows, 0, m.columns, t, out.mutable_data());
    return out;
  }
};

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {{"int4, block 32", 4, 32},
                                        {"int4, block 16, zero points", 4, 16, Zeros::packed},
                                        {"int4, block 256, float zero points", 4, 256, Zeros::floats},
                                        {"int2, block 16", 2, 16},
                                        {"int3, block 32, zero points", 3, 32, Zeros::packed},
                                        {"int8, block 128, zero points", 8, 128, Zeros::packed},
                                        {"signed bytes, block 64", 8, 64, Zeros::none, Codes::signed_integers},
                                        {"nf4, block 64", 4, 64, Zeros::none, Codes::nf4}};
  return all;
}

HostTensor draw(Dims dims, unsigned seed, DType t) {
  std::mt19937 bits(seed);
  std::vector<double> x(static_cast<size_t>(numel(dims)));
  for (double& v : x) v = static_cast<double>(bits()) * 0x1p-31 - 1;
  return HostTensor::of<double>(dims, x).cast(t);
}

// Returns x W^T (forward) or x W, with W quantized or dense.
HostTensor product(const HostTensor& x, const Quantized& w, const HostTensor* dense, bool forward) {
  const DType t = x.dtype();
  PackedGemm g;
  g.m = x.dims()[0], g.k = x.dims()[1];
  g.n = forward ? w.m.rows : w.m.columns;
  g.a = {x.data(), t, g.k, false};
  g.b = {dense ? dense->data() : nullptr, t, w.m.columns, forward, dense ? nullptr : &w.m};
  HostTensor y = HostTensor::zeros(t, {g.m, g.n}), workspace = HostTensor::empty(DType::u8, {g.workspace()});
  g.c = y.mutable_data(), g.c_dtype = t, g.ldc = g.n;
  g.run(workspace.mutable_data());
  return y;
}

}  // namespace

TEST_CASE("a matrix of few bits is dequantized as in fp64, in any part") {
  for (const Form& f : forms()) {
    INFO(f.name);
    const Quantized q(f, 5, 1300, 1);
    for (const auto& [r0, rows, c0, columns] :
         {std::array<int64_t, 4>{0, 5, 0, 1300}, {1, 3, 32, 600}, {4, 1, 7, 1}, {2, 2, 515, 785}, {0, 5, 1, 33}}) {
      std::vector<float> got(static_cast<size_t>(rows * columns));
      dequantize(q.m, r0, rows, c0, columns, DType::f32, got.data());
      double worst = 0;
      for (int64_t i = 0; i < rows * columns; ++i) {
        const double want = q.want[static_cast<size_t>((r0 + i / columns) * 1300 + c0 + i % columns)];
        worst = std::max(worst, std::abs(static_cast<double>(got[static_cast<size_t>(i)]) - want));
      }
      INFO(r0 << " + " << rows << ", " << c0 << " + " << columns);
      CHECK(worst <= 1e-7 * 256);
    }
  }
}

TEST_CASE("products with a quantized operand are those of its dequantized elements") {
  struct Case {
    int64_t m, rows, columns;
  };
  for (const Form& f : forms()) {
    for (const Case& s : {Case{1, 70, 48}, {16, 64, 544}, {5, 33, 1100}, {70, 130, 257}, {300, 40, 96}}) {
      const Quantized q(f, s.rows, s.columns, 3);
      for (const bool forward : {true, false}) {
        INFO(f.name << ", " << s.m << " x " << s.rows << " x " << s.columns << (forward ? " forward" : " backward"));
        const HostTensor x = draw({s.m, forward ? s.columns : s.rows}, 5, DType::f32);
        const std::vector<double> a = x.to_doubles(), got = product(x, q, nullptr, forward).to_doubles();
        const int64_t n = forward ? s.rows : s.columns, k = x.dims()[1];
        double worst = 0, largest = 0;
        for (int64_t i = 0; i < s.m * n; ++i) {
          double sum = 0, magnitudes = 0;
          for (int64_t p = 0; p < k; ++p) {
            const double term = a[static_cast<size_t>(i / n * k + p)] *
                                q.want[static_cast<size_t>(forward ? i % n * s.columns + p : p * s.columns + i % n)];
            sum += term;
            magnitudes += std::abs(term);
          }
          worst = std::max(worst, std::abs(got[static_cast<size_t>(i)] - sum));
          largest = std::max(largest, magnitudes);
        }
        CHECK(worst <= 1e-6 * largest);  // tolerance: rounding of fp32 sums
        for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
          const HostTensor xt = x.cast(t), dense = q.dense(t);
          const HostTensor packed = product(xt, q, nullptr, forward), plain = product(xt, q, &dense, forward);
          INFO(name_of(t));
          CHECK(std::memcmp(packed.data(), plain.data(), static_cast<size_t>(plain.bytes())) == 0);
        }
      }
    }
  }
}

TEST_CASE("products with a quantized operand have the same bits on any number of threads") {
  const int before = omp_get_max_threads();
  for (const bool forward : {true, false}) {
    for (const int64_t rows : {16, 300}) {
      const Quantized q({"int4", 4, 32}, 256, 512, 7);
      const HostTensor x = draw({rows, forward ? 512 : 256}, 9, DType::f32);
      omp_set_num_threads(1);
      const HostTensor one = product(x, q, nullptr, forward);
      omp_set_num_threads(5);
      const HostTensor many = product(x, q, nullptr, forward);
      CHECK(std::memcmp(one.data(), many.data(), static_cast<size_t>(one.bytes())) == 0);
    }
  }
  omp_set_num_threads(before);
}
