// Implements tagged_text.h: reads CoNLL files and tables of words and tags, and tokenizes them word by word. Only the
// first token of a word has a label, as in Hugging Face's run_ner; the other tokens have kIgnoreIndex.
#include "data/tagged_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/activity.h"
#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/dataset.h"
#include "data/labels.h"

namespace amp {

namespace {

std::vector<std::string> parts(std::string_view line, char separator) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= line.size();) {
    const size_t end = std::min(line.find(separator, at), line.size());
    if (end > at) out.emplace_back(line.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

bool blank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }

std::vector<std::string> words_of(const Table& table, int64_t row, size_t column) {
  if (!table.is_json(row, column)) return parts(table.text(row, column), ' ');
  std::vector<std::string> out;
  const nlohmann::json j = nlohmann::json::parse(table.json(row, column));
  for (const auto& word : j) {
    if (!j.is_array() || word.is_structured() || word.is_null()) {
      fail(Exit::data, "E_DATA_LABEL",
           cat(table.where(row), ": column '", printable(table.columns()[column]), "' is no array of words"),
           "write a JSON list of texts");
    }
    out.push_back(word.is_string() ? word.get<std::string>() : word.dump());
  }
  return out;
}

}  // namespace

namespace {

// Collects the lines of a text. A text with a faulty line is left out if the settings permit it.
class ConllTexts {
 public:
  ConllTexts(const std::string& name, bool tagged, SkippedRows& skipped)
      : name_(name), tagged_(tagged), skipped_(skipped) {}

  void add(std::string_view line, int64_t number, bool check_utf8) {
    if (!open_) texts.push_back({{}, {}, number, 0});
    open_ = true;
    try {
      if (check_utf8) require_utf8_text(line, cat(name_, ":", number));
      add_word(line, number);
    } catch (const Error& e) {
      if (skipped_.most() == 0) throw;
      if (!fault_) fault_ = e;
    }
  }

  void end_text() {
    if (fault_) {
      skipped_.add(*fault_, name_, texts.back().line);
      texts.pop_back();
    } else if (open_ && texts.back().tags.size() != texts.back().words.size()) {
      texts.back().tags.clear();
    }
    fault_.reset();
    open_ = false;
  }

  std::vector<TaggedText> texts;

 private:
  void add_word(std::string_view line, int64_t number) {
    const std::vector<std::string> columns = parts(line, line.find('\t') != std::string_view::npos ? '\t' : ' ');
    if (columns.empty() || (tagged_ && columns.size() < 2)) {
      fail(Exit::data, "E_DATA_LABEL",
           cat(name_, ":", number, ": '", printable(std::string(line)), "' is not a word and its tag"),
           "write a word a line, a tab and its tag, and an empty line after each text; name a table's columns with "
           "`text_columns` and `label_column`");
    }
    texts.back().words.push_back(columns.front());
    if (columns.size() > 1) texts.back().tags.push_back(columns.back());
  }

  const std::string& name_;
  const bool tagged_;
  SkippedRows& skipped_;
  bool open_ = false;
  std::optional<Error> fault_;  // the first error of the text
};

}  // namespace

std::vector<TaggedText> parse_conll(std::string_view bytes, const std::string& name, bool tagged, SkippedRows* skip) {
  SkippedRows none;
  SkippedRows& skipped = skip ? *skip : none;
  const bool by_line = skipped.most() > 0 && !is_utf16(bytes);
  if (!by_line) check_utf8_file(bytes, name);
  bytes = without_byte_order_mark(bytes);
  ConllTexts reading(name, tagged, skipped);
  const size_t before = skipped.rows().size();
  int64_t line_number = 0;
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (blank(line) || line.starts_with("-DOCSTART-")) {
      reading.end_text();
    } else {
      reading.add(line, line_number, by_line);
    }
  }
  reading.end_text();
  if (reading.texts.empty() && skipped.rows().size() > before)
    fail(Exit::data, "E_DATA_EMPTY", cat(name, ": no text can be read; the first: ", skipped.rows()[before].reason),
         "write a word a line, a tab and its tag, and an empty line after each text");
  if (reading.texts.empty())
    fail(Exit::data, "E_DATA_EMPTY", cat(name, ": there is no word"), "write at least one text");
  return std::move(reading.texts);
}

TaggedText tagged_row(const Table& table, int64_t row, const std::string& words, const std::string& tags) {
  const size_t w = table.column(words);
  TaggedText text{words_of(table, row, w), {}, table.line(row), table.file(row)};
  if (!table.is_json(row, w)) text.text = table.text(row, w);
  if (tags.empty()) return text;
  text.tags = words_of(table, row, table.column(tags));
  if (text.words.size() == text.tags.size() && !text.words.empty()) return text;
  fail(Exit::data, "E_DATA_LABEL",
       cat(table.where(row), ": ", text.words.size(), " words in column '", printable(words), "', ", text.tags.size(),
           " tags in column '", printable(tags), "'"),
       "every word needs one tag");
}

std::vector<TaggedText> tagged_rows(const Table& table, const std::string& words, const std::string& tags) {
  std::vector<TaggedText> out;
  for (int64_t r = 0; r < table.rows(); ++r) out.push_back(tagged_row(table, r, words, tags));
  return out;
}

std::vector<std::string> distinct_tags(const std::vector<TaggedText>& texts) {
  std::unordered_set<std::string> tags;
  for (const TaggedText& t : texts) tags.insert(t.tags.begin(), t.tags.end());
  std::vector<std::string> out(tags.begin(), tags.end());
  sort_naturally(out);
  return out;
}

std::vector<std::string> find_tags(const std::vector<TaggedText>& texts, const std::string& name) {
  std::vector<std::string> tags = distinct_tags(texts);
  if (tags.size() < 2) {
    fail(Exit::data, "E_DATA_LABEL",
         cat(name, ": every word has the tag '", tags.empty() ? "" : printable(tags[0]),
             "': there are no classes to distinguish"),
         "check `label_column`, or whether the file was cut");
  }
  return tags;
}

namespace {
// Tokenizes texts word by word, as encode_tagged describes. label(text, word) returns the label of the word's first
// token.
template <class F>
std::vector<LabeledText> encode_each(const std::vector<TaggedText>& texts, const Tokenizer& tokenizer,
                                     int64_t max_seq_len, F&& label) {
  const TokenTemplate& frame = tokenizer.single();
  const int64_t specials = count_special(frame), before = ids_before(frame, TemplatePart::What::first, 0);
  if (max_seq_len != 0 && max_seq_len < specials)
    fail(Exit::usage, "E_SEQ_LEN", cat("max_seq_len is ", max_seq_len, ", but the special tokens take ", specials),
         "raise `max_seq_len`");
  std::vector<LabeledText> out;
  Activity tokenizing("tokenizing", "texts", std::ssize(texts));
  for (const TaggedText& text : texts) {
    tokenizing.add(1);
    LabeledText s;
    s.line = text.line;
    s.file = text.file;
    s.row = static_cast<int64_t>(out.size());
    std::vector<Piece> all;
    std::vector<int64_t> labels;
    for (size_t w = 0; w < text.words.size(); ++w) {
      const int64_t first = label(text, w);
      const std::vector<int32_t> pieces = tokenizer.tokenize_word(text.words[w]);
      if (pieces.empty()) continue;  // the word has only control characters
      for (const int32_t id : pieces) all.push_back({id});
      labels.push_back(first);
      labels.resize(all.size(), kIgnoreIndex);
    }
    if (max_seq_len != 0) all.resize(std::min(all.size(), static_cast<size_t>(max_seq_len - specials)));
    s.encoding = assemble(frame, all);
    labels.resize(all.size());
    s.labels.assign(s.encoding.ids.size(), kIgnoreIndex);
    std::copy(labels.begin(), labels.end(), s.labels.begin() + before);
    out.push_back(std::move(s));
  }
  return out;
}

// Returns the class of a word's tag. Throws E_DATA_LABEL_NEW if there is none.
int64_t class_of_tag(const TaggedText& text, size_t word, const std::vector<std::string>& names,
                     const LabelIndex& index, const ClassNames& classes) {
  const auto match = index.find(text.tags[word]);
  if (!match)
    refuse_label(cat(names.at(static_cast<size_t>(text.file)), ":", text.line, ": the tag '",
                     printable(text.tags[word]), "' of the word '", printable(text.words[word]), "'"),
                 classes);
  return match->id;
}
}  // namespace

void require_known_tags(const TaggedText& text, const std::vector<std::string>& names, const LabelIndex& index,
                        const ClassNames& classes) {
  for (size_t w = 0; w < text.tags.size(); ++w) class_of_tag(text, w, names, index, classes);
}

std::vector<LabeledText> encode_tagged(const std::vector<TaggedText>& texts, const std::vector<std::string>& names,
                                       const Tokenizer& tokenizer, const ClassNames& classes, int64_t max_seq_len) {
  const LabelIndex index(classes);
  std::unordered_map<std::string, int64_t> ids;  // tag -> class, of tags seen so far
  return encode_each(texts, tokenizer, max_seq_len, [&](const TaggedText& text, size_t w) {
    auto known = ids.find(text.tags[w]);
    if (known == ids.end()) known = ids.emplace(text.tags[w], class_of_tag(text, w, names, index, classes)).first;
    return known->second;
  });
}

std::vector<LabeledText> encode_words(const std::vector<TaggedText>& texts, const Tokenizer& tokenizer,
                                      int64_t max_seq_len) {
  return encode_each(texts, tokenizer, max_seq_len,
                     [](const TaggedText&, size_t w) { return static_cast<int64_t>(w); });
}

}  // namespace amp
