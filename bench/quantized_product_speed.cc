// Compares products with a packed weight (backend/quantized_matrix.h) with those of the same weight in fp32 or bf16, on
// one thread: y = x W^T (forward) and dx = dy W (backward). The two run alternately, and the medians of their
// processor times are compared, so that other load on the machine matters less. The weights are larger than the
// last-level cache, as in a model whose layers run one after the other.
//   quantized_product_speed [ROUNDS [float32|bfloat16]]
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "backend/cpu/gemm/dequantize.h"
#include "backend/cpu/gemm/packed_gemm.h"
#include "base/host_tensor.h"
#include "bench/timing.h"

using namespace amp;

namespace {

constexpr int64_t kOut = 2048, kIn = 2048;
constexpr int kWeights = 16;  // number of weights that are multiplied in turn: 256 MB in fp32

struct Format {
  const char* name;
  int64_t bits, block;
  Codes codes;
  bool zeros;
};
const Format formats[] = {{"int4 block 32", 4, 32, Codes::unsigned_integers, false},
                          {"int4 block 128", 4, 128, Codes::unsigned_integers, false},
                          {"int4 block 16, zero points", 4, 16, Codes::unsigned_integers, true},
                          {"int8 block 32", 8, 32, Codes::unsigned_integers, false},
                          {"nf4 block 64", 4, 64, Codes::nf4, false}};

// A weight (kOut, kIn) in both forms.
struct Weight {
  std::vector<uint8_t> data, zeros;
  std::vector<float> scales;
  QuantizedMatrix packed;
  HostTensor dense;

  Weight(const Format& f, unsigned seed, DType t) {
    data.resize(static_cast<size_t>(kOut * kIn * f.bits / 8));
    scales.resize(static_cast<size_t>(kOut * kIn / f.block));
    zeros.resize(scales.size() / 2);
    const auto draw = [&] { return static_cast<uint8_t>((seed = seed * 1664525u + 1013904223u) >> 24); };
    for (uint8_t& b : data) b = draw();
    for (float& s : scales) s = static_cast<float>(draw() + 1) * 1e-4f;
    for (uint8_t& z : zeros) z = draw();
    packed.rows = kOut, packed.columns = kIn;
    packed.data = data.data();
    packed.bits = f.bits, packed.row_bits = kIn * f.bits;
    packed.codes = f.codes;
    packed.high_first = f.codes == Codes::nf4;
    packed.scales = scales.data();
    packed.block_columns = f.block, packed.scale_column = 1, packed.scale_row = kIn / f.block;
    packed.zero = static_cast<double>(1 << (f.bits - 1));
    if (f.zeros) packed.zeros = zeros.data(), packed.zero_bits = 4, packed.zero_row_bits = packed.scale_row * 4;
    dense = HostTensor::empty(t, {kOut, kIn});
    cpu::dequantize(packed, 0, kOut, 0, kIn, t, dense.mutable_data());
  }
};

struct Product {
  cpu::PackedGemm g;
  HostTensor x, y, workspace;

  Product(int64_t rows, bool forward, DType t) {
    x = HostTensor::zeros(t, {rows, forward ? kIn : kOut});
    y = HostTensor::zeros(t, {rows, forward ? kOut : kIn});
    std::vector<float> v(static_cast<size_t>(x.numel()));
    for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 17) - 8;
    convert(DType::f32, v.data(), t, x.mutable_data(), x.numel());
    g.m = rows, g.n = y.dims()[1], g.k = x.dims()[1];
    g.a = {x.data(), t, g.k, false};
    g.b = {nullptr, t, kIn, forward};
    g.c = y.mutable_data(), g.c_dtype = t, g.ldc = g.n;
    workspace = HostTensor::empty(DType::u8, {g.workspace()});
  }
  double seconds(const Weight& w, bool packed) {
    g.b.data = packed ? nullptr : w.dense.data();
    g.b.quantized = packed ? &w.packed : nullptr;
    return thread_seconds_of([&] { g.run(workspace.mutable_data()); });
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  const DType t = dtype_from_name(argc > 2 ? argv[2] : "float32");
  omp_set_num_threads(1);
  std::printf("%-28s %-9s %6s %12s %12s %8s\n", "format", "", "rows", "dense ms", "packed ms", "speed");
  for (const Format& f : formats) {
    std::vector<Weight> weights;
    for (unsigned i = 0; i < kWeights; ++i) weights.emplace_back(f, i, t);
    for (const bool forward : {true, false}) {
      for (const int64_t rows : {1, 16, 64, 256, 512, 2048}) {
        Product p(rows, forward, t);
        std::vector<double> dense, packed;
        const int turns = rows >= 512 ? std::max(3, rounds / 4) : rounds;
        for (int i = 0; i < turns; ++i) {
          const Weight& w = weights[static_cast<size_t>(i) % kWeights];
          dense.push_back(p.seconds(w, false));
          packed.push_back(p.seconds(w, true));
        }
        std::printf("%-28s %-9s %6lld %12.3f %12.3f %8.2f\n", f.name, forward ? "forward" : "backward",
                    static_cast<long long>(rows), median(dense) * 1e3, median(packed) * 1e3,
                    median(dense) / median(packed));
        std::fflush(stdout);
      }
    }
  }
}
