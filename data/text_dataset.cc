// Implements datasets of tokenized texts. Texts are tokenized once, on several threads, when the dataset is made; a
// batch pads its samples and adds mask, token types, positions and labels for the inputs that the graph has. Packed
// sequences (several texts in one) get positions that restart and block-diagonal square masks.
#include "data/text_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/each_row.h"

namespace amp {

std::optional<TextRole> text_role(const std::string& input_name) {
  const std::string name = input_name.substr(0, input_name.ends_with(":0") ? input_name.size() - 2 : std::string::npos);
  if (name == "input_ids") return TextRole::ids;
  if (name == "attention_mask" || name == "input_mask") return TextRole::mask;
  if (name == "token_type_ids" || name == "segment_ids") return TextRole::types;
  if (name == "position_ids") return TextRole::positions;
  if (name == "label" || name == "labels" || name == "target" || name == "targets") return TextRole::label;
  return std::nullopt;
}

namespace {

class TextDataset final : public Dataset {
 public:
  TextDataset(LabeledTexts texts, std::vector<std::string> names, int32_t pad, std::vector<InputSpec> inputs,
              const TextOptions& options, std::shared_ptr<const AnswerKey> key)
      : texts_(std::move(texts)),
        inputs_(std::move(inputs)),
        options_(options),
        key_(std::move(key)),
        names_(std::move(names)),
        pad_(pad) {
    if (options_.fixed_seq_len > 0) options_.max_seq_len = options_.fixed_seq_len;
    for (const InputSpec& i : inputs_) roles_.push_back(role_of(i));
    labeled_ = true;
    for (size_t i = 0; i < texts_.size(); ++i) {
      const size_t want = options_.labels == LabelForm::spans ? 2 : texts_.ids(i).size();
      if (texts_.labels(i).size() != want)
        bug("a text without a label for each of its ids, or for both ends of its span");
    }
    if (!options_.sides || texts_.empty()) return;
    sides_ = 2;
    find_longest_sides();
    for (size_t s = 0; s < texts_.size(); s += 2) sample_rows_.push_back(texts_.rows()[s]);
  }

  TextDataset(const Table& table, const Tokenizer& tokenizer, std::vector<InputSpec> inputs, const TextOptions& options)
      : TextDataset({}, table.names(), tokenizer.pad(), std::move(inputs), options, nullptr) {
    labeled_ = false;
    tokenize(table, tokenizer);
    const std::string& column = options_.label_column;
    if (column.empty()) return;
    switch (options_.labels) {
      case LabelForm::classes:
        classes_ = class_ids(table, column, options_.classes);
        break;
      case LabelForm::numbers:
        numbers_ = label_numbers(table, column);
        break;
      case LabelForm::sets:
        numbers_ = multi_hot(table, label_sets(table, column, options_.label_separator), options_.classes);
        width_ = options_.classes.size();
        break;
      case LabelForm::tokens:
      case LabelForm::spans:
      case LabelForm::ids:
      case LabelForm::masks:
        bug("labels of tokens are no column's");
    }
  }

  int64_t size() const override { return static_cast<int64_t>(texts_.size()) / sides_; }
  int64_t rows_per_sample() const override { return sides_; }
  std::span<const int32_t> lengths() const override {
    return sides_ == 1 ? texts_.lengths() : std::span<const int32_t>(longest_sides_);
  }
  std::span<const int64_t> source_rows() const override {
    if (sides_ > 1 && labeled_) return sample_rows_;
    return labeled_ ? texts_.rows() : std::span<const int64_t>();
  }
  std::string where(int64_t sample) const override {
    const auto s = static_cast<size_t>(sample * sides_);
    check(s < texts_.size(), "TextDataset: no such sample");
    return cat(names_.at(static_cast<size_t>(texts_.file(s))), ":", texts_.line(s));
  }
  Batch batch(std::span<const int64_t> samples) const override;
  int64_t cut_samples() const override { return cut_; }
  const AnswerKey* answers() const override { return key_.get(); }
  void check_token_range(const std::string& input, int64_t rows) const override;

  void check_label_range(int64_t classes, int64_t) const override {
    if (options_.labels == LabelForm::ids) return check_label_ids(classes);
    if (options_.labels == LabelForm::spans) return;
    for (int64_t sample = 0; sample < size(); ++sample) {
      const auto s = static_cast<size_t>(sample);
      if (!labeled_ && s >= classes_.size()) return;
      int64_t largest = labeled_ ? kIgnoreIndex : classes_[s];
      if (labeled_) {
        for (const int32_t l : texts_.labels(s)) largest = std::max<int64_t>(largest, l);
      }
      if (largest < classes) continue;
      fail(Exit::data, "E_DATA_LABEL",
           cat(where(sample), ": label '", printable(options_.classes[static_cast<size_t>(largest)]), "' is class ",
               largest, ", the model has ", classes, " classes"),
           "train a model with as many outputs as there are labels");
    }
  }

 private:
  // Fails if a label, which is the id of a token, has no logit.
  void check_label_ids(int64_t logits) const {
    for (size_t s = 0; s < texts_.size(); ++s) {
      int32_t largest = -1;
      for (const int32_t id : texts_.labels(s)) largest = std::max(largest, id);
      if (largest < logits) continue;
      fail(Exit::data, "E_DATA_TOKEN_RANGE",
           cat(where(static_cast<int64_t>(s) / sides_), ": the token ", largest,
               " is a label, the model has logits of ", logits, " tokens"),
           "the tokenizer's vocabulary does not match the model");
    }
  }

  TextRole role_of(const InputSpec& input) const {
    const bool prefixed = input.name.starts_with(options_.input_prefix);
    const auto role = text_role(prefixed ? input.name.substr(options_.input_prefix.size()) : input.name);
    if (role == TextRole::mask && input.dims && input.dims->size() > 2 &&
        (input.dims->size() > 4 || (input.dims->size() == 4 && (*input.dims)[1] > 1))) {
      fail(Exit::data, "E_DATA_INPUT",
           cat("the mask '", printable(input.name), "' has shape ", to_string(*input.dims),
               ", text makes (batch, length), (batch, length, length) and (batch, 1, length, length)"),
           "feed it from a .safetensors or .npz file");
    }
    if (!role) {
      fail(Exit::data, "E_DATA_INPUT",
           cat("the graph's input '", printable(input.name), "' is not one that text makes"),
           input.name.starts_with("decoder_")
               ? "an encoder-decoder model learns from source and target texts: `task` seq2seq"
               : "text makes input_ids, attention_mask, token_type_ids, position_ids; feed others from a .safetensors "
                 "file");
    }
    return *role;
  }

  void tokenize(const Table& table, const Tokenizer& tokenizer) {
    const size_t most = options_.sides ? 3 : 2;
    if (options_.text_columns.empty() || options_.text_columns.size() > most) {
      fail(Exit::usage, "E_TEXT_COLUMNS",
           cat("one ", most == 3 ? "to three" : "or two", " text columns are needed, ", options_.text_columns.size(),
               " given"),
           "name them with `text_columns`");
    }
    if (options_.sides) return tokenize_sides(table, tokenizer);
    const size_t first = table.column(options_.text_columns[0]);
    const size_t second = options_.text_columns.size() == 2 ? table.column(options_.text_columns[1]) : first;
    encode_rows(table, 1, [&](int64_t r, size_t) {
      return first == second ? tokenizer.encode(table.text(r, first), options_.max_seq_len)
                             : tokenizer.encode_pair(table.text(r, first), table.text(r, second), options_.max_seq_len);
    });
  }

  void tokenize_sides(const Table& table, const Tokenizer& tokenizer) {
    std::vector<size_t> columns;
    for (const std::string& name : options_.text_columns) columns.push_back(table.column(name));
    sides_ = static_cast<int64_t>(columns.size());
    encode_rows(table, columns.size(), [&](int64_t r, size_t side) {
      return tokenizer.encode(table.text(r, columns[side]), options_.max_seq_len);
    });
    find_longest_sides();
  }

  void find_longest_sides() {
    const auto sides = static_cast<size_t>(sides_);
    for (size_t s = 0; s < texts_.size(); s += sides) {
      const std::span<const int32_t> all = texts_.lengths().subspan(s, sides);
      longest_sides_.push_back(*std::max_element(all.begin(), all.end()));
    }
  }

  // Calls encode(row, side) on several threads and appends the results in order.
  template <class F>
  void encode_rows(const Table& table, size_t sides, F&& encode) {
    const auto encode_row = [&](int64_t r) {
      std::vector<Encoding> out;
      for (size_t side = 0; side < sides; ++side) out.push_back(encode(r, side));
      return out;
    };
    for_each_made(table.rows(), encode_row, [&](int64_t r, const std::vector<Encoding>& row) {
      for (const Encoding& e : row) texts_.append(e, table.line(r), table.file(r), r);
      cut_ += std::any_of(row.begin(), row.end(), [](const Encoding& e) { return e.cut; });
    });
  }

  HostTensor column(TextRole role, std::span<const int64_t> sequences, int64_t length) const;
  HostTensor square_mask(const InputSpec& input, std::span<const int64_t> sequences, int64_t length) const;
  HostTensor labels(std::span<const int64_t> samples, int64_t length) const;

  LabeledTexts texts_;  // one sequence per side of a sample
  std::vector<InputSpec> inputs_;
  std::vector<TextRole> roles_;
  TextOptions options_;
  std::shared_ptr<const AnswerKey> key_;
  std::vector<std::string> names_;  // names of the files
  int32_t pad_;
  int64_t sides_ = 1;                   // number of sequences per sample
  std::vector<int32_t> longest_sides_;  // length of each sample's longest sequence; empty if samples have one sequence
  std::vector<int64_t> sample_rows_;    // table row of each sample; used if samples have several labeled texts
  std::vector<int64_t> classes_;
  std::vector<float> numbers_;
  size_t width_ = 1;      // how many of numbers_ belong to each sample
  int64_t cut_ = 0;       // number of truncated samples
  bool labeled_ = false;  // texts_ holds labels: one per token id, or two per text
};

HostTensor TextDataset::column(TextRole role, std::span<const int64_t> sequences, int64_t length) const {
  const auto rows = static_cast<int64_t>(sequences.size());
  HostTensor t = HostTensor::empty(DType::i64, {rows, length});
  int64_t* p = t.as_mutable<int64_t>();
  for (const int64_t sequence : sequences) {
    const auto s = static_cast<size_t>(sequence);
    const int64_t n = texts_.length(s);
    const std::span<const int32_t> ids = texts_.ids(s);
    for (int64_t i = 0; i < length; ++i) {
      switch (role) {
        case TextRole::ids:
          p[i] = i < n ? ids[static_cast<size_t>(i)] : pad_;
          break;
        case TextRole::mask:
          p[i] = i < n;
          break;
        case TextRole::types:
          p[i] = i < n ? texts_.type(s, i) : 0;
          break;
        case TextRole::positions:
          p[i] = texts_.position(s, i);
          break;
        case TextRole::label:
          bug("text column of a label");
      }
    }
    p += length;
  }
  return t;
}

// Returns attention masks of shape (B, length, length) or (B, 1, length, length). In a causal language model a token
// attends to itself and to earlier tokens of the same text, in other models to all tokens of the same text. A
// floating-point mask is added to the attention scores; a mask of another type is 1 where attention is allowed. Padding
// tokens attend to themselves, so that no softmax has an empty row.
HostTensor TextDataset::square_mask(const InputSpec& input, std::span<const int64_t> sequences, int64_t length) const {
  const auto rows = static_cast<int64_t>(sequences.size());
  const bool added = is_float(input.dtype), causal = options_.labels == LabelForm::ids && !options_.sees_ahead;
  const float yes = added ? 0 : 1, no = added ? (input.dtype == DType::f16 ? -65504.0F : -3.3895314e38F) : 0;
  Dims dims = {rows, length, length};
  if (input.dims->size() == 4) dims.insert(dims.begin() + 1, 1);
  HostTensor t = HostTensor::empty(DType::f32, dims);
  float* p = t.as_mutable<float>();
  for (const int64_t sequence : sequences) {
    const auto s = static_cast<size_t>(sequence);
    const int64_t n = texts_.length(s);
    for (int64_t i = 0; i < length; ++i) {
      const int64_t begin = i - texts_.position(s, i);
      for (int64_t j = 0; j < length; ++j) {
        const bool same = j < n && (!texts_.joined() || j - texts_.position(s, j) == begin);
        *p++ = i == j || (i < n && same && (j < i || !causal)) ? yes : no;
      }
    }
  }
  return t;
}

Batch TextDataset::batch(std::span<const int64_t> samples) const {
  Batch b;
  b.samples.assign(samples.begin(), samples.end());
  b.rows = static_cast<int64_t>(samples.size());
  std::vector<int64_t> sequences;
  for (const int64_t s : samples) {
    for (int64_t k = 0; k < sides_; ++k) sequences.push_back(s * sides_ + k);
  }
  int64_t longest = 0;
  for (const int64_t s : sequences) {
    check(s >= 0 && static_cast<size_t>(s) < texts_.size(), "TextDataset: no such sample");
    const int64_t n = texts_.length(static_cast<size_t>(s));
    longest = std::max(longest, n);
    b.tokens += n;
  }
  const int64_t m = std::max<int64_t>(1, options_.pad_to_multiple);
  const int64_t padded = std::max(
      longest, std::min((longest + m - 1) / m * m, options_.max_seq_len > 0 ? options_.max_seq_len : INT64_MAX));
  const int64_t length = options_.fixed_seq_len > 0 ? options_.fixed_seq_len : padded;
  if (labeled_ || !options_.label_column.empty()) b.labels = labels(labeled_ ? sequences : b.samples, length);
  b.valid_items = count_valid(b.labels);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (roles_[i] == TextRole::label && !b.labels) {
      fail(Exit::data, "E_DATA_COLUMN",
           cat("the model's input '", printable(inputs_[i].name), "' needs labels, the data has none"),
           "name their column with `label_column`");
    }
    const bool square = roles_[i] == TextRole::mask && inputs_[i].dims && inputs_[i].dims->size() > 2;
    const HostTensor t = roles_[i] == TextRole::label ? b.labels
                         : square                     ? square_mask(inputs_[i], sequences, length)
                                                      : column(roles_[i], sequences, length);
    b.inputs[inputs_[i].name] = t.cast(inputs_[i].dtype);
  }
  return b;
}

HostTensor TextDataset::labels(std::span<const int64_t> samples, int64_t length) const {
  const auto rows = static_cast<int64_t>(samples.size());
  if (labeled_) {
    const bool tokens = options_.labels != LabelForm::spans;
    HostTensor t = HostTensor::empty(DType::i64, {rows, tokens ? length : 2});
    int64_t* p = t.as_mutable<int64_t>();
    for (const int64_t sample : samples) {
      const std::span<const int32_t> own = texts_.labels(static_cast<size_t>(sample));
      int64_t* const end = std::copy(own.begin(), own.end(), p);
      p += t.dims()[1];
      std::fill(end, p, kIgnoreIndex);
    }
    return t;
  }
  const bool sets = options_.labels == LabelForm::sets;
  const DType type = options_.labels == LabelForm::classes ? DType::i64 : DType::f32;
  HostTensor t = HostTensor::empty(type, sets ? Dims{rows, static_cast<int64_t>(width_)} : Dims{rows});
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto s = static_cast<size_t>(samples[i]);
    if (type == DType::i64) {
      t.as_mutable<int64_t>()[i] = classes_[s];
    } else {
      std::copy_n(&numbers_[s * width_], width_, t.as_mutable<float>() + i * width_);
    }
  }
  return t;
}

void TextDataset::check_token_range(const std::string& input, int64_t rows) const {
  const auto spec = std::find_if(inputs_.begin(), inputs_.end(), [&](const InputSpec& i) { return i.name == input; });
  if (spec == inputs_.end()) return;
  const TextRole role = roles_[static_cast<size_t>(spec - inputs_.begin())];
  const auto refuse = [&](int64_t value, size_t sequence) {
    fail(Exit::data, "E_DATA_TOKEN_RANGE",
         cat(where(static_cast<int64_t>(sequence) / sides_), ": input '", printable(input), "' has the value ", value,
             ", the model's table has ", rows, " rows"),
         "the tokenizer's vocabulary does not match the model");
  };
  for (size_t s = 0; s < texts_.size(); ++s) {
    const std::span<const int32_t> ids = texts_.ids(s);
    if (ids.empty()) continue;
    int64_t largest = role == TextRole::positions ? texts_.length(s) - 1 : role == TextRole::mask ? 1 : 0;
    if (role == TextRole::ids) largest = *std::max_element(ids.begin(), ids.end());
    for (int64_t i = 0; role == TextRole::types && i < texts_.length(s); ++i)
      largest = std::max<int64_t>(largest, texts_.type(s, i));
    if (largest >= rows) refuse(largest, s);
    if (role == TextRole::ids && pad_ >= rows) refuse(pad_, s);
  }
}

}  // namespace

int64_t fixed_length(const std::vector<InputSpec>& inputs) {
  for (const InputSpec& i : inputs) {
    if (i.dims && i.dims->size() == 2 && (*i.dims)[1] > 0) return (*i.dims)[1];
  }
  return 0;
}

std::unique_ptr<Dataset> make_text_dataset(const Table& table, const Tokenizer& tokenizer,
                                           std::vector<InputSpec> inputs, const TextOptions& options) {
  return std::make_unique<TextDataset>(table, tokenizer, std::move(inputs), options);
}

std::unique_ptr<Dataset> make_labeled_dataset(LabeledTexts texts, std::vector<std::string> names,
                                              const Tokenizer& tokenizer, std::vector<InputSpec> inputs,
                                              const TextOptions& options, std::shared_ptr<const AnswerKey> key) {
  return std::make_unique<TextDataset>(std::move(texts), std::move(names), tokenizer.pad(), std::move(inputs), options,
                                       std::move(key));
}

std::unique_ptr<Dataset> make_labeled_dataset(LabeledTexts texts, std::vector<std::string> names, int32_t pad,
                                              std::vector<InputSpec> inputs, const TextOptions& options) {
  return std::make_unique<TextDataset>(std::move(texts), std::move(names), pad, std::move(inputs), options, nullptr);
}

}  // namespace amp
