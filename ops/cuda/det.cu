// The kernels of Det and DetGrad (ops/det.cc). Each determinant is computed by one thread. Matrices are interleaved in
// the workspace, so that the threads of a warp read and write neighboring elements.
#include "backend/cpu/workspace.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"
#include "ops/det.h"

namespace amp::cuda {
namespace {

constexpr int64_t kScratch = int64_t{64} << 20;  // bytes of workspace, or what 32 matrices need if that is more

struct Det {
  Ref x, y;
  float* scratch;
  int64_t n, matrices, threads;
  DEV void operator()() const {
    float* const m = scratch + global_index();
    for (int64_t i = global_index(); i < matrices; i += threads) {
      for (int64_t e = 0; e < n * n; ++e) m[e * threads] = load<float>(x, i * n * n + e);
      store(y, i, determinant(m, n, threads));
    }
  }
};

// Computes the gradient, with one thread per cofactor.
struct DetGrad {
  Ref x, dy, dx;
  float* scratch;
  int64_t n, matrices, threads;
  DEV void operator()() const {
    float* const minor = scratch + global_index();
    for (int64_t e = global_index(); e < matrices * n * n; e += threads) {
      const int64_t i = e / (n * n), row = e / n % n, column = e % n;
      float* to = minor;
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t c = 0; c < n; ++c) {
          if (r == row || c == column) continue;
          *to = load<float>(x, (i * n + r) * n + c);
          to += threads;
        }
      }
      const float d = determinant(minor, n - 1, threads);
      store(dx, e, load<float>(dy, i) * d * ((row + column) % 2 ? -1.0f : 1.0f));
    }
  }
};

// Returns how many threads the workspace is large enough for: a multiple of 32, at most the number of determinants.
int64_t threads_for(int64_t determinants, int64_t elements) {
  const int64_t room = std::max<int64_t>(32, kScratch / std::max<int64_t>(elements * 4, 1));
  return (std::min({determinants, room, int64_t{1} << 17}) + 31) / 32 * 32;
}

Kernel det(const KernelArgs& a, Carver& carve) {
  if (in_double(a)) no_fp64(a);
  const int64_t n = a.in[0].dims.back(), matrices = a.out[0].numel(), threads = threads_for(matrices, n * n);
  float* const scratch = carve.take<float>(threads * n * n);
  if (carve.measuring()) return {};
  return [&d = device_of(a), body = Det{a.in[0], a.out[0], scratch, n, matrices, threads}] {
    launch(d, {body.threads / 32, 32}, body);
  };
}
Kernel det_grad(const KernelArgs& a, Carver& carve) {
  if (in_double(a)) no_fp64(a);
  const int64_t n = a.in[0].dims.back(), matrices = a.in[1].numel(), elements = n > 0 ? (n - 1) * (n - 1) : 0,
                threads = threads_for(matrices * n * n, elements);
  float* const scratch = carve.take<float>(threads * elements);
  if (carve.measuring()) return {};
  return [&d = device_of(a), body = DetGrad{a.in[0], a.in[1], a.out[0], scratch, n, matrices, threads}] {
    launch(d, {body.threads / 32, 32}, body);
  };
}

const RegisterKernel kernels[] = {{DeviceKind::cuda, "Det", with_workspace<det>, measure_workspace<det>},
                                  {DeviceKind::cuda, "DetGrad", with_workspace<det_grad>, measure_workspace<det_grad>}};

}  // namespace
}  // namespace amp::cuda
