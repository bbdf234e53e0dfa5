#include <cmath>
#include <vector>

#include "backend/cuda/compare.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"

namespace amp::cuda {

// Per block the largest difference and the largest element of a. (In an unnamed namespace nvcc would call `cooperative`
// unused.)
struct CompareTensors {
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

namespace {

constexpr int64_t kBlocks = 64;

float largest_of(const std::vector<float>& found, size_t which) {
  float v = 0;
  for (size_t i = which; i < found.size(); i += 2) {
    if (std::isnan(found[i])) return found[i];
    v = std::max(v, found[i]);
  }
  return v;
}

}  // namespace

bool Distance::tells() const { return std::isfinite(largest) && largest > 0; }

bool Distance::close(DType t) const {
  const double tolerance = t == DType::f32 ? 4e-3 : t == DType::f16 ? 1e-2 : 4e-2;
  return std::isfinite(difference) && difference <= tolerance * largest;
}

Distance distance(CudaDevice& d, const Tensor& a, const Tensor& b) {
  const DeviceMemory found = d.allocate(kBlocks * 8);
  CompareTensors compare;
  compare.a = a;
  compare.b = b;
  compare.n = a.numel();
  compare.found = static_cast<float*>(found.get());
  launch(d, {kBlocks, 256, 32 * 4}, compare);
  std::vector<float> host(kBlocks * 2);
  d.download(host.data(), found.get(), kBlocks * 8);
  return {largest_of(host, 0), largest_of(host, 1)};
}

}  // namespace amp::cuda
