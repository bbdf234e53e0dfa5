// Loss of extractive question answering: the mean of the cross-entropies of the answer's start and end, over the
// tokens.
#include "ops/compose.h"
#include "trainer/losses/class_rows.h"

namespace amp::losses {

namespace {

Sums qa_span(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const Dims d = b.dims(in.label);
  if (d.size() != 2 || d[1] != 2) label_shape(b, in.outputs[0], in.label, "first and last token [B, 2]");
  Sums sums;
  for (int64_t i = 0; i < 2; ++i) {
    const ValueId column = b.reshape(slice(b, in.label, 1, i, 1), {d[0]});
    sums.push_back(entropy(b, spec, class_rows(b, spec, in.outputs[static_cast<size_t>(i)], column)));
  }
  return sums;
}

Counts count_span(const LossSpec& spec, const HostTensor& label, int64_t) {
  Counts n{0, 0};
  const int64_t ignore_index = spec.ignore_index();
  const std::vector<int64_t> ids = label.to_ints();
  for (size_t i = 0; i < ids.size(); ++i) n[i % 2] += ids[i] != ignore_index;
  return n;
}

const LossRegistration qa_span_row{{
    .name = "qa_span",
    .doc = {{"start and end logits [B, S], label [B, 2]", "half of each cross-entropy", "valid starts, valid ends"}},
    .build = qa_span,
    .count = count_span,
    .parameters = {kIgnoreIndexParameter},
    .synonyms = {"span"},
    .task = Task::span,
    .weights = {0.5, 0.5},
    .min_outputs = 2,
    .max_outputs = 2,
    .default_outputs = {"start_logits", "end_logits"},
    .after_softmax = true,
    .classes = ClassAxis::tokens,
}};

}  // namespace

}  // namespace amp::losses
