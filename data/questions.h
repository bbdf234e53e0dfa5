// Extractive question answering: questions about passages. An answer is a span of its passage; a question may have no
// answer. Reads SQuAD's JSON (1.1 and 2.0).
//
// A sample is [CLS] question [SEP] passage [SEP]. A passage that does not fit is cut into windows that overlap by
// doc_stride tokens, one sample each, as in Hugging Face's run_qa. The labels are the first and last token of the first
// answer. Both labels are [CLS] if the window does not contain the whole answer or there is no answer. Offsets in texts
// count code points.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/skipped_rows.h"
#include "data/table.h"
#include "data/text_dataset.h"

namespace amp {

struct Answer {
  std::string text;
  int64_t begin = 0;
};

struct Question {
  std::string id, text;
  size_t passage = 0;
  std::vector<Answer> answers;
  int64_t line = 0;  // line of the question's row; in JSON, the number of the question, from 1
  int32_t file = 0;  // index of the file
};

// Questions with reference answers, and the part of the passage that each token of a sample covers.
struct AnswerKey {
  struct Window {
    size_t question = 0;
    int64_t first = 0;  // index of the sample's token with which the passage begins
    // range [begin, end) of the passage that each token from index `first` on covers
    std::vector<std::pair<int32_t, int32_t>> parts;
    int64_t none = 0;  // index of the token that means no answer: [CLS]
  };
  std::vector<std::string> passages;
  std::vector<Question> questions;
  std::vector<Window> windows;  // one per sample

  void append(AnswerKey other, int32_t file);  // adds the questions of another file; call it before windows are made

  // Returns the passage's text from token `first` to token `last` of a sample; empty if they are not in the passage.
  std::string text(int64_t sample, int64_t first, int64_t last) const;
  // Returns the begin and end of text() in the passage; nullopt if the tokens are not in the passage.
  std::optional<std::pair<int32_t, int32_t>> place(int64_t sample, int64_t first, int64_t last) const;
};

// The answers that a file must have.
enum class AnswersAre : uint8_t {
  given,        // every question has at least one answer
  given_or_no,  // SQuAD 2.0: some questions have none ("is_impossible" or an empty list)
  unread,       // for prediction: answers are not read
};
// Parses SQuAD's JSON. The windows stay empty. Throws E_DATA_JSON for another structure, E_DATA_LABEL for a missing or
// misplaced answer, and E_DATA_EMPTY without questions. skip: questions with such a fault that may be left out, listed
// by their number; null: none may be.
AnswerKey parse_squad(std::string_view bytes, const std::string& name, AnswersAre answers = AnswersAre::given,
                      SkippedRows* skip = nullptr);

// Adds the question of a row to `key`; arguments and errors as of question_rows().
void add_question_row(const Table& table, int64_t row, const std::string& question, const std::string& passage,
                      const std::string& answer, bool may_have_none, AnswerKey& key);
// Reads one question per row from the columns of the question, the passage and the answer. Throws E_DATA_LABEL if the
// passage does not contain the answer. may_have_none: an empty cell means no answer. An empty `answer` column name: no
// row has an answer.
AnswerKey question_rows(const Table& table, const std::string& question, const std::string& passage,
                        const std::string& answer, bool may_have_none = false);

// Makes the samples of all questions and fills key.windows. A question longer than half of max_seq_len is truncated.
// Throws E_SEQ_LEN if max_seq_len is below 8.
std::vector<LabeledText> encode_questions(AnswerKey& key, const Tokenizer& tokenizer, int64_t max_seq_len,
                                          int64_t doc_stride);

}  // namespace amp
