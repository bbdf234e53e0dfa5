// Multiple negatives ranking (Henderson et al. 2017, arXiv:1705.00652): the candidates of all other pairs are
// negatives.
#include "ops/compose.h"
#include "trainer/losses/embeddings.h"

namespace amp::losses {

namespace {

// Returns the cross-entropy of the scores scale * cos(anchor_i, candidate_j), where the index of the anchor's own
// positive, i, is the class label. Candidates are all positives of the batch and, with a third side, all negatives. If
// the loss is computed in parts, a part consists of some anchors with all candidates.
Sums multiple_negatives(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const std::vector<ValueId> s = sides(b, spec, in, 2);
  const int64_t n = in.item_count > 0 ? in.item_count : b.dims(s[0])[0];
  const ValueId candidates = s.size() == 3 ? concat(b, {s[1], s[2]}, 0) : s[1];
  const ValueId a = in.item_count > 0 ? slice(b, s[0], 0, in.first_item, n) : s[0];
  const ValueId anchors = div(b, a, norm(b, a)), others = div(b, candidates, norm(b, candidates));
  const ValueId scores = b.op("MatMul", {anchors, others}, {{"transB", int64_t{1}}, {"alpha", spec.number("scale")}});
  std::vector<int64_t> own(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) own[static_cast<size_t>(i)] = in.first_item + i;
  return {
      b.op("CrossEntropy", {scores, b.constant(HostTensor::of<int64_t>({n}, own))}, {{"ignore_index", int64_t{-100}}})};
}

const LossRegistration multiple_negatives_row{{
    .name = "multiple_negatives",
    .doc = {{"rows anchor, positive; or two or three outputs", "cross-entropy of scale cos(a_i, c_j), j = i right",
             "anchors"}},
    .build = multiple_negatives,
    .count = count_groups,
    .parameters = {{"scale", ParameterForm::number, 20, 0, true}},
    .synonyms = {"mnr", "mnrl", "multiple_negatives_ranking"},
    .task = Task::retrieval,
    .label = "",
    .across_rows = true,
    .in_parts = true,
    .max_outputs = 3,
    .embeddings = true,
    .rows_in_turn = 2,
}};

}  // namespace

}  // namespace amp::losses
