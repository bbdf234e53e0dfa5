// Estimates the Hessian diagonal over an accumulation step. The estimate is computed in fp32 on the master weights,
// without the precision plan and without a loss scale. The update averages it over convolution kernels and checks that
// it is finite (backend/update.h).
//  * Hutchinson's estimator: v * H v, elementwise, for a random v whose elements have variance 1 (Bekas et al. 2007).
//    All micro-batches use the same v.
//  * Gauss-Newton-Bartlett's estimator (Liu et al. 2023, algorithm 2), for optimizers that sample labels: B g^2, where
//    g is the gradient of the mean loss of B items with labels sampled from the model's outputs. The arena stores the
//    square root of that. The seed of each loss term is the square root of its seed in training, so that curvatures of
//    weighted terms add up.
#pragma once

#include <vector>

#include "backend/update.h"
#include "trainer/compile/session.h"

namespace amp {

// Returns v for one parameter in one step: random signs, or normal numbers if gaussian.
HostTensor draw_direction(uint64_t seed, int64_t step, int slot, const Dims& dims, bool gaussian);

class Curvature {
 public:
  // Allocates the estimate's arena; the session must outlive it.
  Curvature(Session& session, const OptimizerConfig& optimizer);
  // Throws a usage error if a loss cannot sample labels.
  static void require_label_sampling(const Losses& losses);
  bool every_step() const { return interval_ == 1; }
  bool due(int64_t applied) const { return applied % interval_ == 0; }
  // Writes the estimate to the session's curvature arena. before: number of rows of the accumulation step before each
  // batch. seeds: seeds of the backward pass by loss term. Overwrites the staged statistics.
  void estimate(const Losses& losses, const std::vector<Tensors>& batches, const std::vector<int64_t>& before,
                const std::vector<double>& seeds);

 private:
  Session& session_;
  int64_t interval_;
  bool gaussian_, samples_labels_;
};

}  // namespace amp
