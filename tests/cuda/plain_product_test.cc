// The matrix product that replaces cuBLASLt against the emulated device's, which is a host loop that reads rows through
// a compact copy.
#include "backend/cuda/plain_product.h"

#include <catch2/catch_all.hpp>

#include "base/dtype.h"
#include "tests/emulator/emulated_device.h"

using namespace amp;
using namespace amp::cuda;

namespace {

// Returns n numbers of one type, at most 1 in magnitude.
std::vector<char> numbers(DType type, int64_t n, int seed) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 37 + static_cast<size_t>(seed)) % 61) / 30 - 1;
  std::vector<char> out(static_cast<size_t>(n * size_of(type)));
  convert(DType::f32, values.data(), type, out.data(), n);
  return out;
}

void require_same(Gemm g) {
  const auto device = make_emulated_device();
  const int64_t pitch = 3;  // elements between the end of a row and the next
  g.lda = (g.trans_a ? g.m : g.k) + pitch;
  g.ldb = (g.trans_b ? g.k : g.n) + pitch;
  g.ldc = g.n + pitch;
  const int64_t size_a = (g.trans_a ? g.k : g.m) * g.lda, size_b = (g.trans_b ? g.n : g.k) * g.ldb;
  const int64_t size_c = g.m * g.ldc;
  g.stride_a = size_a;
  g.stride_c = size_c;  // stride_b is 0: the whole batch has the same matrix b
  const std::vector<char> a = numbers(g.in, g.batch * size_a, 1), b = numbers(g.in, size_b, 2);
  const std::vector<char> bias = numbers(g.out, g.n, 3);
  if (g.bias) g.bias = bias.data();
  std::vector<char> expected = numbers(g.out, g.batch * size_c, 4), got = expected;
  device->gemm(g)(a.data(), b.data(), expected.data());
  plain_product(*device, g)(a.data(), b.data(), got.data());
  std::vector<float> x(static_cast<size_t>(g.batch * size_c)), y(x.size());
  convert(g.out, expected.data(), DType::f32, x.data(), g.batch * size_c);
  convert(g.out, got.data(), DType::f32, y.data(), g.batch * size_c);
  // Both products sum in the order of k. The emulated product scales and adds in fp64, so the results differ by one
  // rounding.
  const float allowed = g.out == DType::f32 ? 1e-6F : g.out == DType::f16 ? 2e-3F : 2e-2F;
  for (size_t i = 0; i < x.size(); ++i) {
    INFO(i);
    REQUIRE(std::abs(x[i] - y[i]) <= allowed * (1 + std::abs(x[i])));
  }
}

}  // namespace

TEST_CASE("the product without a library equals the library's", "[cuda]") {
  const DType in = GENERATE(DType::f32, DType::f16, DType::bf16);
  const DType out = GENERATE_COPY(DType::f32, in);
  const int form = GENERATE(range(0, 16));
  Gemm g;
  g.m = 5;
  g.n = 7;
  g.k = 11;
  g.batch = 2;
  g.in = in;
  g.out = out;
  g.trans_a = form & 1;
  g.trans_b = form & 2;
  g.alpha = 0.5;
  g.beta = form & 4 ? 1 : 0;
  const float any = 0;
  if (form & 8) g.bias = &any;
  CAPTURE(form, name_of(in), name_of(out));
  require_same(g);
}
