#include "run/evaluate/next_token.h"

#include "base/error.h"
#include "base/text.h"
#include "data/text_dataset.h"

namespace amp {

NextToken::NextToken(Session& session, const std::string& logits, const Tokenizer& tokenizer,
                     std::vector<InputSpec> inputs, Tensors more)
    : session_(session),
      logits_(logits),
      output_(session.source().find(logits)),
      tokenizer_(tokenizer),
      inputs_(std::move(inputs)),
      more_(std::move(more)),
      fixed_(fixed_length(inputs_)) {}

Tensors NextToken::inputs_of(const std::vector<int32_t>& ids, int64_t most) const {
  LabeledText text;
  text.encoding.ids = ids;
  text.encoding.types.assign(ids.size(), 0);
  text.labels.assign(ids.begin(), ids.end());
  TextOptions options;
  options.labels = LabelForm::ids;
  options.max_seq_len = most;
  options.pad_to_multiple = kLengthStep;
  options.fixed_seq_len = fixed_;
  const auto data = make_labeled_dataset({std::move(text)}, {"the prompt"}, tokenizer_, inputs_, options);
  const int64_t first = 0;
  Tensors batch = data->batch({&first, 1}).inputs;
  batch.insert(more_.begin(), more_.end());
  return batch;
}

std::vector<float> NextToken::logits(const std::vector<int32_t>& ids, int64_t most) {
  return computed(inputs_of(ids, most), static_cast<int64_t>(ids.size()) - 1);
}

std::vector<float> NextToken::logits(const LabeledText& source, std::vector<int32_t> ids,
                                     const Seq2SeqOptions& options) {
  const auto last = static_cast<int64_t>(ids.size());
  ids.push_back(options.start);  // placeholder for the next token, which is not read
  const auto data = make_seq2seq_dataset({{source}, {seq2seq_target(std::move(ids), options)}}, {"the prompt"},
                                         tokenizer_, inputs_, kLengthStep, options);
  const int64_t first = 0;
  return computed(data->batch({&first, 1}).inputs, last);
}

std::vector<float> NextToken::computed(const Tensors& batch, int64_t place) {
  return row(session_.forward({output_}, batch).at(logits_), place);
}

std::vector<float> NextToken::row(const HostTensor& logits, int64_t place) const {
  const HostTensor out = logits.cast(DType::f32);
  if (out.rank() != 3 || out.dims()[1] <= place)
    fail(Exit::usage, "E_TASK", cat("the output '", printable(logits_), "' has no logits of each token"),
         "generate needs logits of each next token, (batch, length, vocabulary)");
  const int64_t words = out.dims()[2];
  const float* const at = out.as<float>() + place * words;
  return {at, at + words};
}

}  // namespace amp
