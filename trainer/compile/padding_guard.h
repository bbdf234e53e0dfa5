// The numerical half of padding removal: now and then losses and gradients without padding are compared with those of
// the padded graph, in training form, the same elements dropped; in evaluation losses and outputs. The structural half
// (ops/passes/padding_flow.h) decides what is packed; a comparison that agrees changes nothing, so how often it is made
// is no part of a run's result. One that does not agree ends padding removal for good, with a warning; checkpoints
// carry that.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/kernel.h"
#include "base/host_tensor.h"
#include "ops/passes/padding_flow.h"
#include "trainer/losses/losses.h"

namespace amp {

// Of one micro-batch.
struct LossesAndGradients {
  std::vector<double> terms;          // loss sums
  std::vector<HostTensor> gradients;  // of some parameters
};

// Of one batch in evaluation.
struct LossesAndOutputs {
  std::vector<double> terms;
  Tensors outputs;
  bool finite() const;
};

class PaddingGuard {
 public:
  enum class Verdict { equal, different, says_nothing };
  // tokens: outputs that may hold anything at padded places, (sample, place) with place >= lengths[sample]. A number
  // that is NaN or infinite on one side alone differs.
  static Verdict compare(const LossesAndOutputs& padded, const LossesAndOutputs& packed,
                         const std::map<std::string, TokenForm>& tokens, const std::vector<int64_t>& lengths,
                         bool low_precision);
  // Nothing is said by losses that are 0, by gradients that are, or by numbers that are not finite with padding.
  static Verdict compare(const LossesAndGradients& padded, const LossesAndGradients& packed, bool low_precision);

  // Before the first micro-batch of a step: until three comparisons have said something, then every 256 steps.
  bool due(const RunState& state);
  // Before a batch is evaluated: until three comparisons agreed, then for every 64th.
  bool due_evaluation();
  bool on_verdict(Verdict v);  // true: it ends padding removal
  bool on_evaluation(Verdict v);

  bool off() const { return off_; }
  void turn_off() { off_ = true; }

 private:
  int64_t last_step_ = -1;
  int agreed_ = 0, agreed_evaluations_ = 0;
  int64_t evaluations_ = 0;
  bool off_ = false;
};

// A few rows of a batch for a comparison: the two with the fewest tokens and the two with the most, in order. The
// batch itself where its tensors do not have that many rows each, or where rows belong together.
Tensors few_rows(const Losses& losses, const Tensors& batch, const HostTensor& mask);

}  // namespace amp
