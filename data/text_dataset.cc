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
  TextDataset(std::vector<LabelledText> texts, std::vector<std::string> names, const Tokenizer& tokenizer,
              std::vector<InputSpec> inputs, const TextOptions& options, std::shared_ptr<const AnswerKey> key)
      : inputs_(std::move(inputs)),
        options_(options),
        key_(std::move(key)),
        names_(std::move(names)),
        pad_(tokenizer.pad()) {
    if (options_.fixed_seq_len > 0) options_.max_seq_len = options_.fixed_seq_len;
    for (const InputSpec& i : inputs_) roles_.push_back(role_of(i));
    labelled_ = true;
    width_ = 2;
    for (const LabelledText& t : texts) {
      const size_t want = options_.labels == LabelForm::spans ? width_ : t.encoding.ids.size();
      if (t.labels.size() != want) bug("a text without a label for each of its ids, or for both ends of its span");
      append(t.encoding, t.line, t.file);
      source_rows_.push_back(t.row);
      add_positions(t);
      ids_of_labels_.insert(ids_of_labels_.end(), t.labels.begin(), t.labels.end());
    }
  }

  TextDataset(const Table& table, const Tokenizer& tokenizer, std::vector<InputSpec> inputs, const TextOptions& options)
      : TextDataset({}, table.names(), tokenizer, std::move(inputs), options, nullptr) {
    labelled_ = false;
    width_ = 1;
    tokenize(table, tokenizer);
    const std::string& column = options_.label_column;
    if (column.empty()) return;
    switch (options_.labels) {
      case LabelForm::classes:
        ids_of_labels_ = class_ids(table, column, options_.classes);
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

  int64_t size() const override { return static_cast<int64_t>(lines_.size()); }
  int64_t rows_per_sample() const override { return sides_; }
  std::span<const int32_t> lengths() const override { return sample_lengths_; }
  std::span<const int64_t> source_rows() const override { return source_rows_; }
  std::string where(int64_t sample) const override {
    const auto s = static_cast<size_t>(sample);
    return cat(names_.at(static_cast<size_t>(files_.at(s))), ":", lines_.at(s));
  }
  Batch batch(std::span<const int64_t> samples) const override;
  int64_t cut_samples() const override { return cut_; }
  const AnswerKey* answers() const override { return key_.get(); }
  void check_token_range(const std::string& input, int64_t rows) const override;

  void check_label_range(int64_t classes, int64_t) const override {
    if (options_.labels == LabelForm::spans || options_.labels == LabelForm::ids) return;
    for (size_t s = 0; s < ids_of_labels_.size(); ++s) {
      if (ids_of_labels_[s] < classes) continue;
      const std::string& label = options_.classes[static_cast<size_t>(ids_of_labels_[s])];
      const auto after = std::upper_bound(starts_.begin(), starts_.end(), s);  // of tokens: the sample they lie in
      const int64_t sample =
          options_.labels == LabelForm::tokens ? after - starts_.begin() - 1 : static_cast<int64_t>(s);
      fail(Exit::data, "E_DATA_LABEL",
           cat(where(sample), ": label '", printable(label), "' is class ", ids_of_labels_[s], ", the model has ",
               classes, " classes"),
           "train a model with as many outputs as there are labels");
    }
  }

 private:
  TextRole role_of(const InputSpec& input) const {
    const bool prefixed = input.name.starts_with(options_.input_prefix);
    const auto role = text_role(prefixed ? input.name.substr(options_.input_prefix.size()) : input.name);
    if (role == TextRole::mask && input.dims && input.dims->size() > 2 &&
        (input.dims->size() > 4 || (input.dims->size() == 4 && (*input.dims)[1] > 1))) {
      fail(Exit::data, "E_DATA_INPUT",
           cat("the mask '", printable(input.name), "' has shape ", to_string(*input.dims),
               ", text makes (batch, length), (batch, length, length) and (batch, 1, length, length)"));
    }
    if (!role) {
      fail(Exit::data, "E_DATA_INPUT",
           cat("the graph's input '", printable(input.name), "' is not one that text makes"),
           input.name.starts_with("decoder_")
               ? "an encoder-decoder model learns from source and target texts: --task seq2seq"
               : "text makes input_ids, attention_mask, token_type_ids, position_ids; feed others from a .safetensors "
                 "file");
    }
    return *role;
  }

  // Where several texts are one sequence: each token's place in its own.
  void add_positions(const LabelledText& t) {
    if (positions_.empty() && t.restarts.empty()) return;
    for (size_t i = positions_.size(); i < starts_.back(); ++i)  // of sequences before the first of several texts
      positions_.push_back(static_cast<int32_t>(i - *std::prev(std::upper_bound(starts_.begin(), starts_.end(), i))));
    auto restart = t.restarts.begin();
    int32_t place = 0;
    for (int32_t i = 0; i < lengths_.back(); ++i, ++place) {
      if (restart != t.restarts.end() && *restart == i) {
        place = 0;
        ++restart;
      }
      positions_.push_back(place);
    }
  }
  int64_t position(size_t sequence, int64_t i) const {
    return positions_.empty() || i >= lengths_[sequence] ? i : positions_[starts_[sequence] + static_cast<size_t>(i)];
  }

  void tokenize(const Table& table, const Tokenizer& tokenizer) {
    const size_t most = options_.sides ? 3 : 2;
    if (options_.text_columns.empty() || options_.text_columns.size() > most) {
      fail(Exit::usage, "E_TEXT_COLUMNS",
           cat("one ", most == 3 ? "to three" : "or two", " text columns are needed, ", options_.text_columns.size(),
               " given"));
    }
    if (options_.sides) return tokenize_sides(table, tokenizer);
    const size_t first = table.column(options_.text_columns[0]);
    const size_t second = options_.text_columns.size() == 2 ? table.column(options_.text_columns[1]) : first;
    std::vector<Encoding> encodings(static_cast<size_t>(table.rows()));
    for_each_row(table.rows(), [&](int64_t r) {
      encodings[static_cast<size_t>(r)] =
          first == second ? tokenizer.encode(table.text(r, first), options_.max_seq_len)
                          : tokenizer.encode_pair(table.text(r, first), table.text(r, second), options_.max_seq_len);
    });
    for (int64_t r = 0; r < table.rows(); ++r) append(encodings[static_cast<size_t>(r)], table.line(r), table.file(r));
    cut_ = std::count_if(encodings.begin(), encodings.end(), [](const Encoding& e) { return e.cut; });
  }

  void tokenize_sides(const Table& table, const Tokenizer& tokenizer) {
    std::vector<size_t> columns;
    for (const std::string& name : options_.text_columns) columns.push_back(table.column(name));
    sides_ = static_cast<int64_t>(columns.size());
    std::vector<Encoding> encodings(static_cast<size_t>(table.rows()) * columns.size());
    for_each_row(table.rows(), [&](int64_t r) {
      for (size_t c = 0; c < columns.size(); ++c)
        encodings[static_cast<size_t>(r) * columns.size() + c] =
            tokenizer.encode(table.text(r, columns[c]), options_.max_seq_len);
    });
    for (int64_t r = 0; r < table.rows(); ++r) {
      int32_t longest = 0;
      bool cut = false;
      for (size_t c = 0; c < columns.size(); ++c) {
        const Encoding& e = encodings[static_cast<size_t>(r) * columns.size() + c];
        cut |= e.cut;
        add_sequence(e);
        longest = std::max(longest, lengths_.back());
      }
      cut_ += cut ? 1 : 0;
      sample_lengths_.push_back(longest);
      lines_.push_back(table.line(r));
      files_.push_back(table.file(r));
    }
  }

  void append(const Encoding& e, int64_t line, int32_t file) {
    add_sequence(e);
    sample_lengths_.push_back(lengths_.back());
    lines_.push_back(line);
    files_.push_back(file);
  }

  void add_sequence(const Encoding& e) {
    tokens_.insert(tokens_.end(), e.ids.begin(), e.ids.end());
    types_.insert(types_.end(), e.types.begin(), e.types.end());
    lengths_.push_back(static_cast<int32_t>(e.ids.size()));
    starts_.push_back(tokens_.size() - e.ids.size());
  }

  HostTensor column(TextRole role, std::span<const int64_t> sequences, int64_t length) const;
  HostTensor square_mask(const InputSpec& input, std::span<const int64_t> sequences, int64_t length) const;
  HostTensor labels(std::span<const int64_t> samples, int64_t length) const;

  std::vector<InputSpec> inputs_;
  std::vector<TextRole> roles_;
  TextOptions options_;
  std::shared_ptr<const AnswerKey> key_;
  std::vector<std::string> names_;  // of files
  int32_t pad_;
  int64_t sides_ = 1;            // sequences of a sample
  std::vector<int32_t> tokens_;  // of all sequences, one after the other
  std::vector<size_t> starts_;
  std::vector<uint8_t> types_;           // of all tokens
  std::vector<int32_t> positions_;       // of all tokens; empty: every sequence is one text
  std::vector<int64_t> source_rows_;     // of each sample, of a table; empty: the samples are its rows
  std::vector<int32_t> lengths_;         // by sequence
  std::vector<int32_t> sample_lengths_;  // the longest of each sample's
  std::vector<int64_t> lines_, ids_of_labels_;
  std::vector<int32_t> files_;  // of each sample, in names_
  std::vector<float> numbers_;
  size_t width_ = 1;       // numbers a row, or class ids
  int64_t cut_ = 0;        // samples
  bool labelled_ = false;  // ids_of_labels_ holds one an id, or two a text
};

HostTensor TextDataset::column(TextRole role, std::span<const int64_t> sequences, int64_t length) const {
  const auto rows = static_cast<int64_t>(sequences.size());
  HostTensor t = HostTensor::empty(DType::i64, {rows, length});
  int64_t* p = t.as_mutable<int64_t>();
  for (const int64_t sequence : sequences) {
    const auto s = static_cast<size_t>(sequence);
    const int64_t n = lengths_[s];
    const int32_t* ids = tokens_.data() + starts_[s];
    for (int64_t i = 0; i < length; ++i) {
      switch (role) {
        case TextRole::ids:
          p[i] = i < n ? ids[i] : pad_;
          break;
        case TextRole::mask:
          p[i] = i < n;
          break;
        case TextRole::types:
          p[i] = i < n ? types_[starts_[s] + static_cast<size_t>(i)] : 0;
          break;
        case TextRole::positions:
          p[i] = position(s, i);
          break;
        case TextRole::label:
          bug("text column of a label");
      }
    }
    p += length;
  }
  return t;
}

// Which token sees which, (B, length, length) or (B, 1, length, length): those of its own text, in a causal language
// model those that are not behind it. Floating masks are added to scores, others are 1 where a token is seen. What is
// padded sees itself, so that no row of a softmax is empty.
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
    const int64_t n = lengths_[s];
    for (int64_t i = 0; i < length; ++i) {
      const int64_t begin = i - position(s, i);
      for (int64_t j = 0; j < length; ++j) {
        const bool same = j < n && (positions_.empty() || j - position(s, j) == begin);
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
    const int64_t n = lengths_.at(static_cast<size_t>(s));
    longest = std::max(longest, n);
    b.tokens += n;
  }
  const int64_t m = std::max<int64_t>(1, options_.pad_to_multiple);
  const int64_t padded = std::max(
      longest, std::min((longest + m - 1) / m * m, options_.max_seq_len > 0 ? options_.max_seq_len : INT64_MAX));
  const int64_t length = options_.fixed_seq_len > 0 ? options_.fixed_seq_len : padded;
  if (labelled_ || !options_.label_column.empty()) b.labels = labels(samples, length);
  b.valid_items = count_valid(b.labels);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (roles_[i] == TextRole::label && !b.labels) {
      fail(Exit::data, "E_DATA_COLUMN",
           cat("the model's input '", printable(inputs_[i].name), "' wants labels, the data has none"));
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
  if (labelled_) {
    const bool tokens = options_.labels != LabelForm::spans;
    HostTensor t = HostTensor::empty(DType::i64, {rows, tokens ? length : static_cast<int64_t>(width_)});
    int64_t* p = t.as_mutable<int64_t>();
    for (const int64_t sample : samples) {
      const auto s = static_cast<size_t>(sample);
      const size_t n = tokens ? static_cast<size_t>(lengths_[s]) : width_;
      int64_t* const end = std::copy_n(ids_of_labels_.data() + (tokens ? starts_[s] : s * width_), n, p);
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
      t.as_mutable<int64_t>()[i] = ids_of_labels_[s];
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
  for (size_t s = 0; s < lengths_.size(); ++s) {
    const auto begin = tokens_.begin() + static_cast<std::ptrdiff_t>(starts_[s]);
    const auto types = types_.begin() + static_cast<std::ptrdiff_t>(starts_[s]);
    if (lengths_[s] == 0) continue;
    const int64_t largest = role == TextRole::ids         ? *std::max_element(begin, begin + lengths_[s])
                            : role == TextRole::positions ? lengths_[s] - 1
                            : role == TextRole::types     ? *std::max_element(types, types + lengths_[s])
                            : role == TextRole::label     ? 0
                                                          : 1;
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

std::unique_ptr<Dataset> make_labelled_dataset(std::vector<LabelledText> texts, std::vector<std::string> names,
                                               const Tokenizer& tokenizer, std::vector<InputSpec> inputs,
                                               const TextOptions& options, std::shared_ptr<const AnswerKey> key) {
  return std::make_unique<TextDataset>(std::move(texts), std::move(names), tokenizer, std::move(inputs), options,
                                       std::move(key));
}

}  // namespace amp
