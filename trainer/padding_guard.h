// The numerical half of padding removal: now and then losses and gradients without padding are compared with those of
// the padded graph, in training form, the same elements dropped. The structural half (ops/passes/padding_flow.h)
// decides what is packed; a comparison that agrees changes nothing, so how often it is made is no part of a run's
// result. One that does not agree ends padding removal for good, with a warning; checkpoints carry that.
#pragma once

#include <string>
#include <vector>

#include "backend/kernel.h"
#include "base/host_tensor.h"
#include "trainer/losses.h"

namespace amp {

// Of one micro-batch.
struct LossesAndGradients {
  std::vector<double> terms;          // loss sums
  std::vector<HostTensor> gradients;  // of some parameters
};

class PaddingGuard {
 public:
  enum class Verdict { equal, different, says_nothing };
  // Nothing is said by losses that are 0, by gradients that are, or by numbers that are not finite with padding.
  static Verdict compare(const LossesAndGradients& padded, const LossesAndGradients& packed, bool low_precision);

  // Before the first micro-batch of a step: until three comparisons have said something, then every 256 steps.
  bool due(const RunState& state);
  bool on_verdict(Verdict v);  // true: it ends padding removal

  bool off() const { return off_; }
  void turn_off() { off_ = true; }

 private:
  int64_t last_step_ = -1;
  int agreed_ = 0;
  bool off_ = false;
};

// A few rows of a batch for a comparison: the two with the fewest tokens and the two with the most, in order. The
// batch itself where its tensors do not have that many rows each, or where rows belong together.
Tensors few_rows(const Losses& losses, const Tensors& batch, const HostTensor& mask);

}  // namespace amp
