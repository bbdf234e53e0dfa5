#include <algorithm>
#include <cmath>

#include "backend/cuda/compare_outputs.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"

namespace amp::cuda {

// Writes for each block the largest difference of a and b and the largest magnitude in a. The struct is not in an
// unnamed namespace, because nvcc would report `cooperative` as unused.
struct CompareResults {
  static constexpr bool cooperative = true;
  Ref a, b;
  int64_t n;
  float* found;  // (blocks, 2)
  DEV void operator()() const {
    float difference = 0, largest = 0;
    for (int64_t i = global_index(); i < n; i += global_threads()) {
      const float x = load<float>(a, i), y = load<float>(b, i);
      difference = Maximum{}(difference, fabsf(x - y));
      largest = Maximum{}(largest, fabsf(x));
    }
    float* const scratch = shared_memory<float>();
    difference = block_reduce(difference, 0.0f, Maximum{}, scratch);
    largest = block_reduce(largest, 0.0f, Maximum{}, scratch);
    if (thread_index() == 0) {
      found[2 * block_index()] = difference;
      found[2 * block_index() + 1] = largest;
    }
  }
};

OutputDifference compare_outputs(CudaDevice& d, const Tensor& first, const Tensor& second) {
  constexpr int64_t kBlocks = 64;
  check(first.numel() == second.numel(), "compared results have different sizes");
  const DeviceMemory found = d.allocate(kBlocks * 8);
  CompareResults compare;
  compare.a = first;
  compare.b = second;
  compare.n = first.numel();
  compare.found = static_cast<float*>(found.get());
  launch(d, {kBlocks, 256, 32 * 4}, compare);
  std::vector<float> host(kBlocks * 2);
  d.download(host.data(), found.get(), kBlocks * 8);
  const auto largest = [&](size_t which) {
    float v = 0;
    for (size_t i = which; i < host.size(); i += 2) {
      if (std::isnan(host[i])) return host[i];
      v = std::max(v, host[i]);
    }
    return v;
  };
  return {largest(0), largest(1)};
}

}  // namespace amp::cuda
