// The table of losses: what each kind is made of. Builders return sums in the outputs' floating type.
#pragma once

#include <vector>

#include "trainer/losses.h"

namespace amp {

struct LossRule {
  const char* name;
  std::vector<ValueId> (*build)(Builder&, const LossSpec&, const LossInputs&);
  std::vector<double> (*count)(const LossSpec&, const HostTensor& label, int64_t rows);
  size_t min_outputs = 1, max_outputs = 1;
  const char* label = "label";               // the default; "": none needed
  std::vector<std::string> parameters = {};  // beyond kind, output(s), label, weight
  std::vector<double> weights = {1};         // of its terms
  bool root = false;                         // n sqrt(mean) of its n items: roots do not add, their squares do
};
const std::vector<LossRule>& loss_rules();
const LossRule& loss_rule(const std::string& kind);  // usage error when unknown

namespace losses {

using Sums = std::vector<ValueId>;
using Counts = std::vector<double>;

// ---- shared
// -------------------------------------------------------------------------------------------------------------
ValueId total(Builder& b, ValueId x);  // sum of all elements, rank 0
ValueId square(Builder& b, ValueId x);
ValueId safe_sqrt(Builder& b, ValueId x);                     // gradient 0, not infinite, at 0
ValueId float_label(Builder& b, ValueId out, ValueId label);  // in the output's shape and type
[[noreturn]] void label_shape(const Builder& b, ValueId out, ValueId label, const std::string& want);
// Where a label is ignore_index, bool in the label's shape; invalid when no label can be (then nothing is masked).
ValueId ignored(Builder& b, const LossSpec& spec, ValueId label);
Counts count_all(const LossSpec&, const HostTensor& label, int64_t);    // every element
Counts count_valid(const LossSpec&, const HostTensor& label, int64_t);  // elements other than ignore_index

// ---- losses_class.cc: class ids
// ------------------------------------------------------------------------------------------
Sums cross_entropy(Builder&, const LossSpec&, const LossInputs&);
Sums causal_lm(Builder&, const LossSpec&, const LossInputs&);
Sums qa_span(Builder&, const LossSpec&, const LossInputs&);
Sums nll_probs(Builder&, const LossSpec&, const LossInputs&);
Sums focal(Builder&, const LossSpec&, const LossInputs&);
Counts count_classes(const LossSpec&, const HostTensor& label, int64_t);  // class weights of the valid labels
Counts count_causal(const LossSpec&, const HostTensor& label, int64_t);
Counts count_span(const LossSpec&, const HostTensor& label, int64_t);
Counts count_focal(const LossSpec&, const HostTensor& label, int64_t);

// ---- losses_dense.cc: numbers, probabilities, masks
// -------------------------------------------------------------------------
Sums bce_logits(Builder&, const LossSpec&, const LossInputs&);
Sums mse(Builder&, const LossSpec&, const LossInputs&);
Sums l1(Builder&, const LossSpec&, const LossInputs&);
Sums huber(Builder&, const LossSpec&, const LossInputs&);
Sums rmspe(Builder&, const LossSpec&, const LossInputs&);
Sums rmspe_exp(Builder&, const LossSpec&, const LossInputs&);
Sums kl(Builder&, const LossSpec&, const LossInputs&);
Sums distill(Builder&, const LossSpec&, const LossInputs&);
Sums dice(Builder&, const LossSpec&, const LossInputs&);
Sums dice_ce(Builder&, const LossSpec&, const LossInputs&);
Counts count_nonzero(const LossSpec&, const HostTensor& label, int64_t);
Counts count_rows_of_last(const LossSpec&, const HostTensor& label, int64_t);
Counts count_distill(const LossSpec&, const HostTensor& label, int64_t rows);
Counts count_dice(const LossSpec&, const HostTensor& label, int64_t);
Counts count_dice_ce(const LossSpec&, const HostTensor& label, int64_t);

// ---- losses_pairs.cc: embeddings, and losses that the model computes
// --------------------------------------------------------
Sums cosine(Builder&, const LossSpec&, const LossInputs&);
Sums cosine_mse(Builder&, const LossSpec&, const LossInputs&);
Sums triplet(Builder&, const LossSpec&, const LossInputs&);
Sums multiple_negatives(Builder&, const LossSpec&, const LossInputs&);
Sums model(Builder&, const LossSpec&, const LossInputs&);
Counts count_label_rows(const LossSpec&, const HostTensor& label, int64_t);
Counts count_groups_of_2(const LossSpec&, const HostTensor&, int64_t rows);
Counts count_groups_of_3(const LossSpec&, const HostTensor&, int64_t rows);
Counts count_rows(const LossSpec&, const HostTensor&, int64_t rows);

}  // namespace losses
}  // namespace amp
