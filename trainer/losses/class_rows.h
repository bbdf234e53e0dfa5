// Logits against class ids: what the cross-entropies, focal and dice_ce have in common.
#pragma once

#include "trainer/losses/loss.h"

namespace amp::losses {

struct ClassRows {
  ValueId logits;  // [N, C]
  ValueId label;   // int64 [N]
};
// Logits [..., C] against label [...]; or, where that does not fit or second_axis, logits [B, C, ...] against
// label [B, ...].
ClassRows class_rows(Builder& b, const LossSpec& spec, ValueId out, ValueId label, bool second_axis = false);

// Rows whose label counts, with what the label picks from them.
struct Picked {
  ValueId ignored;   // bool [N]
  ValueId log_prob;  // [N, C]
  ValueId own;       // [N]: log-probability of the label
  ValueId weight;    // [N]: of the label's class; invalid without class weights
};
Picked pick(Builder& b, const LossSpec& spec, const ClassRows& r);
ValueId sum_valid(Builder& b, const Picked& p, ValueId per_row);

// (1 - e) w_y (-log p_y) + e / C sum_c w_c (-log p_c), as torch.nn.CrossEntropyLoss; parameters that the kind lacks are
// at their defaults.
ValueId entropy(Builder& b, const LossSpec& spec, const ClassRows& r);

// Labels that are probabilities [N, C] for logits [N, C]: sum_c w_c y_c (-log p_c) with y smoothed, a row an item, as
// torch.nn.CrossEntropyLoss has it.
bool are_probabilities(Builder& b, const LossInputs& in);
ValueId soft_entropy(Builder& b, const LossSpec& spec, ValueId logits, ValueId label);

// Class ids drawn from softmax(logits), in the label's shape and type; where the label is ignored it stays so.
ValueId draw_classes(Builder& b, const LossSpec& spec, ValueId out, ValueId label, ValueId uniform,
                     bool second_axis = false);

// The weight of each label's class; 0 where it is ignored.
std::vector<double> label_weights(const LossSpec& spec, const std::vector<int64_t>& ids);
// Class weights of the valid labels; of probabilities, rows.
Counts count_classes(const LossSpec&, const HostTensor& label, int64_t);

}  // namespace amp::losses
