// Estimates of the Hessian's diagonal over an accumulation window, in fp32 on the master weights, whatever the plan: no
// loss scale is in them. The update averages them over convolution kernels and checks that they are finite
// (backend/update.h).
//  * Hutchinson's: v H v, element by element, for a random v whose elements have variance 1 (Bekas et al. 2007), the
//    same v in all micro-batches.
//  * Gauss-Newton-Bartlett's (Liu et al. 2023, algorithm 2), for rules that draw labels: its square is B g^2 for the
//    gradient g of the mean loss of B items whose labels are drawn from the model's outputs. Terms with weights add up
//    as their curvatures do: backward starts at the root of where the loss's does.
#pragma once

#include <vector>

#include "backend/update.h"
#include "trainer/compile/session.h"

namespace amp {

// v for a tensor of a step: signs, or normal numbers.
HostTensor draw_direction(uint64_t seed, int64_t step, int slot, const Dims& dims, bool gaussian);

class Curvature {
 public:
  // Allocates the estimate's arena; the session must outlive it.
  Curvature(Session& session, const OptimizerConfig& optimizer);
  // Usage error for a loss whose labels cannot be drawn.
  static void require_draws(const Losses& losses);
  bool every_step() const { return interval_ == 1; }
  bool due(int64_t applied) const { return applied % interval_ == 0; }
  // Backward starts at seeds, by loss term. Leaves staged statistics in disorder.
  void estimate(const Losses& losses, const std::vector<Tensors>& batches, const std::vector<int64_t>& before,
                const std::vector<double>& seeds);

 private:
  Session& session_;
  int64_t interval_;
  bool gaussian_, draws_labels_;
};

}  // namespace amp
