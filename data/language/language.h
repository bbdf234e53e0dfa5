// Rows of a table as a causal language model learns them. A row is
//   a text;  a prompt and a completion, in two columns;  a conversation: JSON's array of messages in one column, or in
//   two its beginning and the rest. Tools for its template lie in the column "tools", where there is one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/language/conversation.h"
#include "data/language/packing.h"
#include "data/table.h"
#include "data/text_dataset.h"
#include "data/tokenizer.h"

namespace amp {

struct LanguageOptions {
  std::vector<std::string> columns;
  LossOn loss_on = LossOn::answers;  // of plain texts always all
  bool end_texts = false;            // an end-of-text token behind plain texts
  bool end_answers = true;           // and behind completions
  TextPacking packing = TextPacking::none;
  int64_t max_seq_len = 0;
  int64_t stride = 0;      // TextPacking::stride: tokens that windows share
  bool keep_rows = false;  // texts with nothing to learn as well
};

class LanguageReader {
 public:
  // chat may be null until a row holds a conversation: then E_CHAT_TEMPLATE (exit 2).
  LanguageReader(const Table& table, const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat,
                 LanguageOptions options);
  // All its ids, with labels: kIgnoreIndex where there is no loss. E_DATA_CHAT, E_DATA_UTF8.
  LabelledText read(int64_t row) const;

 private:
  LabelledText plain(std::string_view text) const;
  LabelledText completion(std::string_view prompt, std::string_view completion) const;
  LabelledText conversation(int64_t row) const;
  const Table& table_;
  const Tokenizer& tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_;
  LanguageOptions options_;
  std::vector<size_t> columns_;
};

struct LanguageTexts {
  LabelledTexts texts;
  int64_t cut = 0;         // rows that lost their end
  int64_t unanswered = 0;  // rows with nothing to learn in what is left of them, which are left out
};
LanguageTexts encode_language(const Table& table, const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat,
                              const LanguageOptions& options);

}  // namespace amp
