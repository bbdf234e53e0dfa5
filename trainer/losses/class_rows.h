// Functions that build graphs of losses between logits and class ids, shared by the cross-entropies, focal and dice_ce.
#pragma once

#include "trainer/losses/loss.h"

namespace amp::losses {

struct ClassRows {
  ValueId logits;  // [N, C]
  ValueId label;   // int64 [N]
};
// Reshapes logits [..., C] and label [...] to ClassRows. With second_axis, or if the label does not have that shape,
// they are read as logits [B, C, ...] and label [B, ...].
ClassRows class_rows(Builder& b, const LossSpec& spec, ValueId out, ValueId label, bool second_axis = false);

// Converts labels to indices of a table with `classes` rows; ignored labels become 0. A label that is not a class
// causes an error when the batch runs.
ValueId lookup_index(Builder& b, ValueId ignored, ValueId label, int64_t classes);

// The log-probabilities of all rows (log_prob), and those of the labels' classes (own).
struct Picked {
  ValueId ignored;   // bool [N]
  ValueId log_prob;  // [N, C]
  ValueId own;       // [N]: log-probability of the label
  ValueId weight;    // [N]: weight of the label's class; invalid without class weights
};
Picked pick(Builder& b, const LossSpec& spec, const ClassRows& r);
// Returns the sum of per_row over the rows whose label is not ignored.
ValueId sum_valid(Builder& b, const Picked& p, ValueId per_row);

// Returns the sum of (1 - e) w_y (-log p_y) + e / C sum_c w_c (-log p_c), as torch.nn.CrossEntropyLoss. If the kind of
// loss lacks one of these parameters, the parameter's default is used.
ValueId entropy(Builder& b, const LossSpec& spec, const ClassRows& r);

// Returns whether the labels are probabilities [N, C] instead of class ids.
bool are_probabilities(Builder& b, const LossInputs& in);
// Returns the cross-entropy with labels that are probabilities: sum_c w_c y_c (-log p_c) with smoothed y, as
// torch.nn.CrossEntropyLoss. Each row is an item.
ValueId soft_entropy(Builder& b, const LossSpec& spec, ValueId logits, ValueId label);

// Returns class ids sampled from softmax(logits), in the label's shape and type. Ignored labels stay ignored.
ValueId draw_classes(Builder& b, const LossSpec& spec, ValueId out, ValueId label, ValueId uniform,
                     bool second_axis = false);

// Returns the weight of each label's class; 0 for ignored labels.
std::vector<double> label_weights(const LossSpec& spec, const std::vector<int64_t>& ids);
// Returns the sum of the class weights of valid labels; for probabilities, the number of rows.
Counts count_classes(const LossSpec&, const HostTensor& label, int64_t);

}  // namespace amp::losses
