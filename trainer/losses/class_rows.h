// Parts of losses of logits and class ids, shared by the cross-entropies, focal and dice_ce.
#pragma once

#include "trainer/losses/loss.h"

namespace amp::losses {

struct ClassRows {
  ValueId logits;  // [N, C]
  ValueId label;   // int64 [N]
};
// Reshapes logits [..., C] and label [...] to rows. If the shapes do not match that, or with second_axis, the logits
// are [B, C, ...] and the label [B, ...].
ClassRows class_rows(Builder& b, const LossSpec& spec, ValueId out, ValueId label, bool second_axis = false);

// Labels as indices of a lookup in a table of `classes` rows: 0 where `ignored`. A label that is no class is refused
// when the batch runs.
ValueId lookup_index(Builder& b, ValueId ignored, ValueId label, int64_t classes);

// Log-probabilities of the rows, gathered at the labels.
struct Picked {
  ValueId ignored;   // bool [N]
  ValueId log_prob;  // [N, C]
  ValueId own;       // [N]: log-probability of the label
  ValueId weight;    // [N]: weight of the label's class; invalid without class weights
};
Picked pick(Builder& b, const LossSpec& spec, const ClassRows& r);
ValueId sum_valid(Builder& b, const Picked& p, ValueId per_row);  // over rows that are not ignored

// The sum of (1 - e) w_y (-log p_y) + e / C sum_c w_c (-log p_c), as torch.nn.CrossEntropyLoss. Parameters that the
// kind does not have are at their defaults.
ValueId entropy(Builder& b, const LossSpec& spec, const ClassRows& r);

// Cross-entropy with labels that are probabilities [N, C]: sum_c w_c y_c (-log p_c) with smoothed y, as
// torch.nn.CrossEntropyLoss. Each row is an item.
bool are_probabilities(Builder& b, const LossInputs& in);
ValueId soft_entropy(Builder& b, const LossSpec& spec, ValueId logits, ValueId label);

// Class ids sampled from softmax(logits), in the label's shape and type. Ignored labels stay ignored.
ValueId draw_classes(Builder& b, const LossSpec& spec, ValueId out, ValueId label, ValueId uniform,
                     bool second_axis = false);

// The weight of each label's class; 0 for ignored labels.
std::vector<double> label_weights(const LossSpec& spec, const std::vector<int64_t>& ids);
// Sum of the class weights of valid labels; for probabilities, the number of rows.
Counts count_classes(const LossSpec&, const HostTensor& label, int64_t);

}  // namespace amp::losses
