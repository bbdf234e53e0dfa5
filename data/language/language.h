// Rows of a table as training texts of a causal language model. A row is
//   a text;  a prompt and a completion, in two columns;  a conversation: a JSON array of messages in one column, or
//   two such arrays in two columns, the first messages and the remaining ones. The column "tools", if it exists,
//   has the tools for its template.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "data/language/chat_template.h"
#include "data/language/packing.h"
#include "data/table.h"
#include "data/text_dataset.h"
#include "data/tokenizer.h"

namespace amp {

struct LanguageOptions {
  std::vector<std::string> columns;
  LossOn loss_on = LossOn::answers;  // plain texts always use `all`
  bool end_texts = false;            // adds an end-of-text token to plain texts
  bool end_answers = true;           // adds an end-of-text token to completions
  TextPacking packing = TextPacking::none;
  int64_t max_seq_len = 0;
  int64_t stride = 0;      // TextPacking::stride: tokens that consecutive windows share
  bool keep_rows = false;  // keeps texts in which no loss is computed for any token
};

class LanguageReader {
 public:
  // chat may be null unless a row is a conversation; then E_CHAT_TEMPLATE (exit 2) is thrown.
  LanguageReader(const Table& table, const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat,
                 LanguageOptions options);
  // Returns the token ids of a row and one label for each: the id itself, or kIgnoreIndex where no loss is computed.
  // Throws E_DATA_CHAT, E_DATA_UTF8.
  LabeledText read(int64_t row) const;

 private:
  LabeledText plain(std::string_view text) const;
  LabeledText completion(std::string_view prompt, std::string_view completion) const;
  LabeledText conversation(int64_t row) const;
  const Table& table_;
  const Tokenizer& tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_;
  LanguageOptions options_;
  std::vector<size_t> columns_;
};

struct LanguageTexts {
  LabeledTexts texts;
  int64_t cut = 0;         // number of truncated rows
  int64_t unanswered = 0;  // number of rows left out because no loss is computed for any of their tokens
};
LanguageTexts encode_language(const Table& table, const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat,
                              const LanguageOptions& options);

// Returns true if any label except the first differs from kIgnoreIndex. The first label has no effect, because no
// prediction precedes the first token. Labels: a range of integers.
template <class Labels>
bool has_something_to_learn(const Labels& labels) {
  return !labels.empty() &&
         std::any_of(labels.begin() + 1, labels.end(), [](auto label) { return label != kIgnoreIndex; });
}

}  // namespace amp
