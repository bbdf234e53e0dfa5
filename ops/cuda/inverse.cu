// The kernel of Inverse (ops/inverse.cc), with one thread per matrix. The matrix and its inverse are stored in the
// workspace, interleaved with those of the other threads: element e of all threads is contiguous, so that a warp's
// accesses coalesce.
#include "backend/cpu/workspace.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"
#include "ops/inverse.h"

namespace amp::cuda {
namespace {

constexpr int64_t kScratch = int64_t{64} << 20;  // bytes of workspace, or what 32 matrices need if that is more

struct Inverse {
  Ref x, y;
  float* scratch;
  int64_t n, matrices, threads;
  DEV void operator()() const {
    float* const m = scratch + global_index();
    float* const inverse = m + n * n * threads;
    for (int64_t i = global_index(); i < matrices; i += threads) {
      for (int64_t e = 0; e < n * n; ++e) m[e * threads] = load<float>(x, i * n * n + e);
      invert(m, inverse, n, threads);
      for (int64_t e = 0; e < n * n; ++e) store(y, i * n * n + e, inverse[e * threads]);
    }
  }
};

Kernel inverse(const KernelArgs& a, Carver& carve) {
  if (in_double(a)) no_fp64(a);
  const int64_t n = a.in[0].dims.back(), elements = n * n, matrices = elements > 0 ? a.in[0].numel() / elements : 0;
  const int64_t room = std::max<int64_t>(32, kScratch / std::max<int64_t>(2 * elements * 4, 1));
  const int64_t threads = (std::min({matrices, room, int64_t{1} << 17}) + 31) / 32 * 32;
  float* const scratch = carve.take<float>(threads * 2 * elements);
  if (carve.measuring()) return {};
  return [&d = device_of(a), body = Inverse{a.in[0], a.out[0], scratch, n, matrices, threads}] {
    launch(d, {body.threads / 32, 32}, body);
  };
}

const RegisterKernel kernel{DeviceKind::cuda, "Inverse", with_workspace<inverse>, measure_workspace<inverse>};

}  // namespace
}  // namespace amp::cuda
