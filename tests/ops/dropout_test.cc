// Dropout masks: which elements of a sample are dropped depends neither on threads nor on the division into
// micro-batches.
#include "ops/dropout.h"

#include <catch2/catch_all.hpp>
#include <cmath>

#include "backend/kernel.h"
#include "base/host_tensor.h"
#include "graph/op.h"

using namespace amp;

namespace {

// Returns Dropout of ones for a micro-batch of `rows` samples, after `before` samples of the same accumulation step.
std::vector<float> dropped(const Dims& dims, int64_t before, int64_t rows, int64_t step = 5, int64_t site = 3) {
  const RunState state{7, step, before};
  HostTensor x = HostTensor::empty(DType::f32, dims), y = HostTensor::zeros(DType::f32, dims);
  for (int64_t i = 0; i < x.numel(); ++i) x.as_mutable<float>()[i] = 1;
  Node node;
  node.op = &core_op("Dropout");
  node.attrs = Attrs{{"ratio", 0.3}, {"site", site}, {"rows", rows}};
  const KernelArgs args{
      node, {{x.mutable_data(), DType::f32, dims}}, {{y.mutable_data(), DType::f32, dims}}, nullptr, &state};
  find_kernel(DeviceKind::cpu, "Dropout")(args)();
  return {y.as<float>(), y.as<float>() + y.numel()};
}

// Returns Dropout of 32 samples in micro-batches of `rows`. Each sample is `lead` entries of the
// tensor's first dimension.
std::vector<float> window(int64_t rows, int64_t lead, Dims rest, int64_t step = 5) {
  std::vector<float> all;
  for (int64_t row = 0; row < 32; row += rows) {
    Dims dims{rows * lead};
    dims.insert(dims.end(), rest.begin(), rest.end());
    const std::vector<float> part = dropped(dims, row, rows, step);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

TEST_CASE("the cut into micro-batches does not change what is dropped", "[dropout]") {
  for (const Dims& rest : {Dims{}, Dims{5}, Dims{3, 7}, Dims{64, 4}}) {
    for (const int64_t lead : {1, 12}) {
      INFO(to_string(rest) << " lead " << lead);
      const std::vector<float> whole = window(32, lead, rest);
      CHECK(window(8, lead, rest) == whole);
      CHECK(window(1, lead, rest) == whole);
      CHECK(window(32, lead, rest, 6) != whole);
    }
  }
}

TEST_CASE("bits that are drawn many at a time are those of single ones", "[dropout]") {
  const RunState state{0x123456789abcdefu, 41, 6};
  const DropoutBits bits{1u << 30, 9, 1.25};
  for (const int64_t first :
       // At 17179869180, close to 2^34, the number of a Philox group wraps.
       {int64_t{0}, int64_t{3}, int64_t{4}, int64_t{30}, int64_t{17179869180 - 7}}) {
    for (const int64_t n : {1, 2, 27, 32, 33, 64, 77, 200}) {
      INFO(n << " from " << first);
      std::vector<float> got(static_cast<size_t>(n) + 1, 7), want = got;
      dropout_factors(bits, state, 3, first, n, got.data());
      for (int64_t i = 0; i < n; ++i) {
        const PhiloxBlock block = dropout_words(state, 3, (first + i) / 4, bits.site);
        want[static_cast<size_t>(i)] = block.v[(first + i) % 4] < bits.threshold ? 0.0f : 1.25f;
      }
      CHECK(got == want);
    }
  }
}

TEST_CASE("samples and micro-batches draw different bits, at the right rate", "[dropout]") {
  const int64_t n = 20000;
  const auto a = dropped({1, n}, 0, 1), b = dropped({1, n}, 1, 1);
  const auto odd = dropped({n + 1}, 2, 2);  // the length of a row is not a multiple of four
  const auto site = dropped({1, n}, 0, 1, 5, 4);
  int64_t zeros = 0, same = 0, same_odd = 0, same_site = 0;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    CHECK((a[i] == 0 || std::abs(a[i] - 1 / 0.7f) < 1e-6f));
    zeros += a[i] == 0;
    same += a[i] == b[i];
    same_odd += a[i] == odd[i];
    same_site += a[i] == site[i];
  }
  // The expected count is 6000, with standard deviation 65. Independent masks agree in 0.58 n elements, with standard
  // deviation 70.
  CHECK(std::abs(zeros - 6000) < 300);
  for (const int64_t s : {same, same_odd, same_site}) CHECK(std::abs(s - 11600) < 350);
}
