// PaddingGuard: numerical check of padding removal. From time to time it compares a packed computation with the padded
// graph: losses and gradients in training (with the same dropout mask), losses and outputs in evaluation.
// The structural analysis (ops/passes/padding_flow.h) decides which values are packed. If the results are equal, the
// run continues unchanged. If they differ, padding removal is disabled for the rest of the run, with a warning, and
// checkpoints store that.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/kernel.h"
#include "base/host_tensor.h"
#include "ops/passes/padding_flow.h"
#include "trainer/losses/losses.h"

namespace amp {

// Results of one micro-batch.
struct LossesAndGradients {
  std::vector<double> terms;          // loss sums
  std::vector<HostTensor> gradients;  // gradients of the compared parameters
};

// Results of one batch in evaluation.
struct LossesAndOutputs {
  std::vector<double> terms;
  Tensors outputs;
  bool finite() const;
};

class PaddingGuard {
 public:
  enum class Verdict { equal, different, says_nothing };
  // Compares two evaluations of a batch. tokens: outputs whose values at padded positions (position >= lengths[sample])
  // are ignored. A number that is NaN or infinite on only one side counts as different.
  static Verdict compare(const LossesAndOutputs& padded, const LossesAndOutputs& packed,
                         const std::map<std::string, TokenForm>& tokens, const std::vector<int64_t>& lengths,
                         bool low_precision);
  // Returns says_nothing if all losses or all gradients are 0, or a number of the padded computation is not finite.
  static Verdict compare(const LossesAndGradients& padded, const LossesAndGradients& packed, bool low_precision);

  // Returns whether a comparison is due before this micro-batch, which is true only for the first micro-batch of a
  // step. A comparison is due in every step until three comparisons were equal, then every 256 steps.
  bool due(const RunState& state);
  // Returns whether a comparison is due before a batch is evaluated: before every batch until three comparisons were
  // equal, then before every 64th.
  bool due_evaluation();
  bool on_verdict(Verdict v);  // records a verdict; returns whether it ends padding removal
  bool on_evaluation(Verdict v);

  // Checkpoints store the counts, so that a resumed run compares the same batches as a run without a stop. A comparison
  // in another step could find a difference that the other run does not see.
  struct Counts {
    int64_t agreed = 0, agreed_evaluations = 0;  // number of comparisons that found equal results
    int64_t evaluated = 0;                       // number of evaluated batches
    bool operator==(const Counts&) const = default;
  };
  const Counts& counts() const { return counts_; }
  void restore(const Counts& counts) { counts_ = counts; }

  bool off() const { return off_; }
  void turn_off() { off_ = true; }

 private:
  int64_t last_step_ = -1;
  Counts counts_;
  bool off_ = false;
};

// Returns a few rows of a batch for a comparison, in their order: the two rows with the fewest and the two with the
// most tokens. Returns the whole batch if a tensor has another number of rows, if there are at most four rows, or if a
// loss reads several rows together.
Tensors few_rows(const Losses& losses, const Tensors& batch, const HostTensor& mask);

}  // namespace amp
