// Reads marked answers, and makes batches of them. Which answers share a batch is known only when the batch is
// requested. So each batch is assembled from the texts: answers of other rows are appended to prompts as token ids, as
// TRL's KTOTrainer does.
#include "data/language/marked_answers.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "data/language/preferences.h"

namespace amp {

namespace {

bool counts(int32_t label) { return label != kIgnoreIndex; }

// Returns the index of the first label that is not ignored; the number of labels if all are ignored.
size_t answer_begin(std::span<const int32_t> labels) {
  return static_cast<size_t>(std::find_if(labels.begin(), labels.end(), counts) - labels.begin());
}

class MarkedDataset final : public Dataset {
 public:
  MarkedDataset(MarkedAnswers answers, std::vector<std::string> names, const Tokenizer& tokenizer,
                std::vector<InputSpec> inputs, const TextOptions& options, std::string mark)
      : answers_(std::move(answers)),
        names_(std::move(names)),
        pad_(tokenizer.pad()),
        inputs_(std::move(inputs)),
        options_(options),
        mark_(std::move(mark)),
        most_(options.fixed_seq_len > 0 ? options.fixed_seq_len : options.max_seq_len) {
    check(answers_.texts.size() >= 2, "marked answers: an answer after another prompt needs two texts");
    options_.sides = true;
    int64_t longest = 0;
    for (size_t i = 0; i < answers_.texts.size(); ++i) longest = std::max(longest, answer_length(i));
    for (size_t i = 0; i < answers_.texts.size(); ++i) {
      const int64_t n = answers_.texts.length(i), joined = n - answer_length(i) + longest;
      lengths_.push_back(static_cast<int32_t>(most_ > 0 ? std::max(n, std::min(joined, most_)) : joined));
    }
  }

  int64_t size() const override { return static_cast<int64_t>(answers_.texts.size()); }
  int64_t rows_per_sample() const override { return 2; }
  // Returns for each sample the largest length that either of its rows can have.
  std::span<const int32_t> lengths() const override { return lengths_; }
  std::span<const int64_t> source_rows() const override { return answers_.texts.rows(); }
  std::string where(int64_t sample) const override {
    const auto s = static_cast<size_t>(sample);
    return cat(names_.at(static_cast<size_t>(answers_.texts.file(s))), ":", answers_.texts.line(s));
  }

  Batch batch(std::span<const int64_t> samples) const override {
    LabeledTexts rows;
    std::vector<int64_t> marks, order(samples.size());
    for (size_t i = 0; i < samples.size(); ++i) {
      const int64_t other = samples.size() == 1 ? (samples[0] + 1) % size() : i == 0 ? samples.back() : samples[i - 1];
      const LabeledText own = answers_.texts[static_cast<size_t>(samples[i])];
      rows.append(own);
      rows.append(joined(own, static_cast<size_t>(samples[i]), static_cast<size_t>(other)));
      marks.push_back(answers_.desirable[static_cast<size_t>(samples[i])]);
    }
    std::iota(order.begin(), order.end(), 0);
    Batch b = make_labeled_dataset(std::move(rows), names_, pad_, inputs_, options_)->batch(order);
    b.samples.assign(samples.begin(), samples.end());
    b.more_labels[mark_] = HostTensor::of<int64_t>({static_cast<int64_t>(marks.size())}, marks);
    return b;
  }

  void check_token_range(const std::string& input, int64_t rows) const override {
    constexpr size_t kAtOnce = 1024;
    TextOptions each = options_;
    each.sides = false;
    for (size_t at = 0; at < answers_.texts.size(); at += kAtOnce) {
      LabeledTexts some;
      for (size_t i = at; i < std::min(at + kAtOnce, answers_.texts.size()); ++i) some.append(answers_.texts[i]);
      make_labeled_dataset(std::move(some), names_, pad_, inputs_, each)->check_token_range(input, rows);
    }
  }
  void check_label_range(int64_t, int64_t) const override {}  // labels are token ids, see check_token_range()

 private:
  int64_t answer_length(size_t text) const {
    return answers_.texts.length(text) - static_cast<int64_t>(answer_begin(answers_.texts.labels(text)));
  }

  // Returns the prompt of text `at`, whose tokens are `own`, followed by the answer of text `other`; the result is
  // truncated.
  LabeledText joined(const LabeledText& own, size_t at, size_t other) const {
    const LabeledText answer = answers_.texts[other];
    const auto from = static_cast<int64_t>(answer_begin(answers_.texts.labels(other)));
    LabeledText out = own;
    const size_t prompt = answer_begin(answers_.texts.labels(at));
    const auto join = [&](auto& to, const auto& more) {
      to.resize(std::min(prompt, to.size()));
      if (!more.empty()) to.insert(to.end(), more.begin() + from, more.end());
      if (most_ > 0 && static_cast<int64_t>(to.size()) > most_) to.resize(static_cast<size_t>(most_));
    };
    join(out.encoding.ids, answer.encoding.ids);
    join(out.encoding.types, answer.encoding.types);
    std::fill(out.labels.begin(), out.labels.end(), kIgnoreIndex);
    join(out.labels, answer.labels);
    return out;
  }

  MarkedAnswers answers_;
  std::vector<std::string> names_;
  int32_t pad_;
  std::vector<InputSpec> inputs_;
  TextOptions options_;
  std::string mark_;
  int64_t most_;  // longest sequence; 0: any length
  std::vector<int32_t> lengths_;
};

}  // namespace

bool are_pairs(const std::vector<std::string>& columns) {
  return columns.size() == 3 || columns == std::vector<std::string>{"chosen", "rejected"};
}

std::vector<LanguageOptions> marked_options(const Table& table, const LanguageOptions& options) {
  if (are_pairs(options.columns)) {
    const std::array<LanguageOptions, 2> sides = pair_options(table, options);
    return {sides.begin(), sides.end()};
  }
  if (options.packing != TextPacking::none)
    fail(Exit::usage, "E_PACKING", "marked answers cannot be packed, and `packing` is given", "leave it out");
  if (options.columns.size() != 2)
    fail(Exit::usage, "E_TEXT_COLUMNS",
         cat("marked answers are in two columns, and ", options.columns.size(), " are given"),
         "give `text_columns` prompt,completion, and `label_column` for the marks");
  LanguageOptions one = options;
  one.loss_on = LossOn::answers;
  one.keep_rows = true;
  return {one};
}

bool read_mark(const Table& table, int64_t row, size_t column) {
  const std::string hint = "write true for a desirable answer, false for others; `label_map` OLD=NEW renames labels";
  if (!table.has(row, column))
    fail(Exit::data, "E_DATA_LABEL",
         cat(table.where(row, column), ": the answer has no mark in column '", printable(table.columns()[column]), "'"),
         hint);
  const std::string_view text = table.text(row, column);
  if (one_of(text, {"true", "True", "TRUE", "1"})) return true;
  if (one_of(text, {"false", "False", "FALSE", "0"})) return false;
  fail(Exit::data, "E_DATA_LABEL",
       cat(table.where(row, column), ": the mark '", printable(std::string(text)), "' is neither true nor false"),
       hint);
}

MarkedAnswers encode_marked(const Table& table, const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat,
                            const LanguageOptions& options, const std::string& label) {
  const std::vector<LanguageOptions> sides = marked_options(table, options);
  const bool pairs = sides.size() == 2;
  const size_t column =
      pairs
          ? 0
          : table.column(label, "the marks are in `label_column`; pairs of answers are in columns chosen and rejected");
  std::vector<char> marks;
  for (int64_t row = 0; !pairs && row < table.rows(); ++row) marks.push_back(read_mark(table, row, column));
  std::vector<LanguageTexts> answers;
  MarkedAnswers out;
  for (const LanguageOptions& side : sides) {
    answers.push_back(encode_language(table, tokenizer, chat, side));
    out.cut += answers.back().cut;
  }
  for (size_t i = 0; i < answers[0].texts.size(); ++i) {
    for (size_t side = 0; side < answers.size(); ++side) {
      const LabeledTexts& texts = answers[side].texts;
      if (!has_something_to_learn(texts.labels(i))) {
        ++out.unanswered;
        continue;
      }
      out.texts.append(texts[i]);
      out.desirable.push_back(pairs ? side == 0 : marks.at(static_cast<size_t>(texts.rows()[i])));
    }
  }
  return out;
}

std::unique_ptr<Dataset> make_marked_dataset(MarkedAnswers answers, std::vector<std::string> names,
                                             const Tokenizer& tokenizer, std::vector<InputSpec> inputs,
                                             const TextOptions& options, std::string mark) {
  return std::make_unique<MarkedDataset>(std::move(answers), std::move(names), tokenizer, std::move(inputs), options,
                                         std::move(mark));
}

}  // namespace amp
