// Implements sequence-to-sequence datasets as two text datasets, of sources and of targets, whose batches are merged.
// Inputs with the prefix "decoder_" and the labels belong to the target.
#include "data/language/seq2seq.h"

#include <algorithm>

#include "base/error.h"
#include "data/each_row.h"

namespace amp {

namespace {

constexpr const char* kDecoder = "decoder_";

class Seq2SeqDataset final : public Dataset {
 public:
  Seq2SeqDataset(std::unique_ptr<Dataset> sources, std::unique_ptr<Dataset> targets, int64_t cut)
      : sources_(std::move(sources)), targets_(std::move(targets)), cut_(cut) {
    const std::span<const int32_t> a = sources_->lengths(), b = targets_->lengths();
    for (size_t i = 0; i < a.size(); ++i) lengths_.push_back(std::max(a[i], b[i]));
  }

  int64_t size() const override { return sources_->size(); }
  std::span<const int32_t> lengths() const override { return lengths_; }
  std::span<const int64_t> source_rows() const override { return sources_->source_rows(); }
  std::string where(int64_t sample) const override { return sources_->where(sample); }
  int64_t cut_samples() const override { return cut_; }
  Batch batch(std::span<const int64_t> samples) const override {
    Batch b = sources_->batch(samples);
    const Batch target = targets_->batch(samples);
    b.inputs.insert(target.inputs.begin(), target.inputs.end());
    b.labels = target.labels;
    b.valid_items = target.valid_items;
    b.tokens += target.tokens;
    return b;
  }
  void check_token_range(const std::string& input, int64_t rows) const override {
    sources_->check_token_range(input, rows);
    targets_->check_token_range(input, rows);
  }
  void check_label_range(int64_t, int64_t) const override {}  // ids are inputs, which check_token_range checks

 private:
  std::unique_ptr<Dataset> sources_, targets_;
  std::vector<int32_t> lengths_;  // for each sample, the length of its source or its target, whichever is longer
  int64_t cut_;
};

std::unique_ptr<Dataset> side(LabeledTexts texts, const std::vector<std::string>& names, const Tokenizer& tokenizer,
                              const std::vector<InputSpec>& inputs, int64_t pad_to_multiple, int64_t most,
                              bool encoder) {
  TextOptions t;
  t.labels = LabelForm::ids;
  t.sees_ahead = encoder;
  if (!encoder) t.input_prefix = kDecoder;
  t.max_seq_len = most;
  t.pad_to_multiple = pad_to_multiple;
  t.fixed_seq_len = fixed_length(inputs);
  return make_labeled_dataset(std::move(texts), names, tokenizer, inputs, t);
}

}  // namespace

LabeledText seq2seq_source(std::string_view text, const Tokenizer& tokenizer, const Seq2SeqOptions& options) {
  LabeledText out;
  out.encoding = tokenizer.encode(options.prefix + std::string(text), options.max_source);
  out.labels.assign(out.encoding.ids.size(), kIgnoreIndex);
  return out;
}

LabeledText seq2seq_target(std::vector<int32_t> ids, const Seq2SeqOptions& options) {
  LabeledText out;
  out.labels.assign(ids.begin(), ids.end());
  ids.insert(ids.begin(), options.start);
  ids.pop_back();
  out.encoding.types.assign(ids.size(), 0);
  out.encoding.ids = std::move(ids);
  return out;
}

namespace {

struct Seq2SeqRow {
  LabeledText source, target;
  bool cut = false;
};

// Encodes the target and adds an end-of-text token if the tokenizer does not.
Encoding encode_target(std::string_view text, const Tokenizer& tokenizer, int64_t most) {
  const int32_t end = tokenizer.special().eos;
  Encoding e = tokenizer.encode(text, most);
  if (end < 0 || (!e.ids.empty() && e.ids.back() == end)) return e;
  if (most > 0 && static_cast<int64_t>(e.ids.size()) == most) {
    e.ids.pop_back();
    e.cut = true;
  }
  e.ids.push_back(end);
  return e;
}

}  // namespace

Seq2SeqTexts encode_seq2seq(const Table& table, const Tokenizer& tokenizer, const Seq2SeqOptions& options) {
  const size_t source = table.column(options.source), target = table.column(options.target);
  Seq2SeqTexts out;
  const auto encode = [&](int64_t r) {
    Seq2SeqRow row;
    row.source = seq2seq_source(table.text(r, source), tokenizer, options);
    Encoding e = encode_target(table.text(r, target), tokenizer, options.max_target);
    row.cut = row.source.encoding.cut || e.cut;
    if (e.ids.empty())
      fail(Exit::data, "E_DATA_EMPTY", cat(table.where(r), ": the target has no tokens"),
           "the tokenizer has no end-of-text token that an empty target could have");
    row.target = seq2seq_target(std::move(e.ids), options);
    for (LabeledText* t : {&row.source, &row.target}) {
      t->line = table.line(r);
      t->file = table.file(r);
      t->row = r;
    }
    return row;
  };
  for_each_made(table.rows(), encode, [&](int64_t, const Seq2SeqRow& row) {
    out.sources.append(row.source);
    out.targets.append(row.target);
    out.cut += row.cut;
  });
  return out;
}

std::unique_ptr<Dataset> make_seq2seq_dataset(Seq2SeqTexts texts, const std::vector<std::string>& names,
                                              const Tokenizer& tokenizer, const std::vector<InputSpec>& inputs,
                                              int64_t pad_to_multiple, const Seq2SeqOptions& options) {
  std::vector<InputSpec> of_source, of_target;
  for (const InputSpec& i : inputs)
    (i.name.starts_with(kDecoder) || text_role(i.name) == TextRole::label ? of_target : of_source).push_back(i);
  if (of_target.empty())
    fail(Exit::data, "E_DATA_INPUT", "no input of the graph reads a target (decoder_input_ids, or labels)",
         "`task` seq2seq trains encoder-decoder models in one file; for a model with only a decoder give `task` "
         "language");
  auto sources = side(std::move(texts.sources), names, tokenizer, of_source, pad_to_multiple, options.max_source, true);
  auto targets =
      side(std::move(texts.targets), names, tokenizer, of_target, pad_to_multiple, options.max_target, false);
  return std::make_unique<Seq2SeqDataset>(std::move(sources), std::move(targets), texts.cut);
}

}  // namespace amp
