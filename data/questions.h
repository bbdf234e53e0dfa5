// Questions about passages, with answers that are parts of them, or without: SQuAD's JSON (1.1 and 2.0).
//
// A sample is [CLS] question [SEP] passage [SEP]. A passage that does not fit is cut into windows that overlap by
// doc_stride pieces, a sample each, as in Hugging Face's run_qa. Its label: first and last token of the first answer;
// [CLS] twice where the window does not hold all of it,
// where there is no answer and for an empty one. Places in texts count code points.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  int64_t line = 0;  // of its row; of JSON: its number, from 1
  int32_t file = 0;  // of several
};

// What answers are judged by: the texts, and which part of them each token of a sample is.
struct AnswerKey {
  struct Window {
    size_t question = 0;
    int64_t first = 0;                               // token of the sample where the passage begins
    std::vector<std::pair<int32_t, int32_t>> parts;  // begin and end in the passage, of each token from `first` on
    int64_t none = 0;                                // the token that stands for no answer: [CLS]
  };
  std::vector<std::string> passages;
  std::vector<Question> questions;
  std::vector<Window> windows;  // by sample

  void append(AnswerKey other, int32_t file);  // the questions of another file; before windows are made

  // The passage's text from token `first` to token `last` of a sample; empty when these are none of the passage.
  std::string text(int64_t sample, int64_t first, int64_t last) const;
  std::optional<std::pair<int32_t, int32_t>> place(int64_t sample, int64_t first, int64_t last) const;  // of that text
};

// E_DATA_JSON for another structure, E_DATA_LABEL for a question without an answer or an answer that is not in the
// passage where it says. windows is left empty.
enum class AnswersAre : uint8_t {
  given,        // one at least for each question
  given_or_no,  // SQuAD 2.0: some questions have none ("is_impossible", or an empty list)
  unread,       // to predict
};
AnswerKey parse_squad(std::string_view bytes, const std::string& name, AnswersAre answers = AnswersAre::given);

// A question a row: columns of the question and of its passage, and of the answer, which is looked for in the passage
// (E_DATA_LABEL when it is not there), may_have_none: an empty cell is none. No such column: no answers.
AnswerKey question_rows(const Table& table, const std::string& question, const std::string& passage,
                        const std::string& answer, bool may_have_none = false);

// The samples of all questions; fills key.windows. E_SEQ_LEN when max_seq_len leaves no room beside the question; a
// question longer than half of it is cut there.
std::vector<LabelledText> encode_questions(AnswerKey& key, const Tokenizer& tokenizer, int64_t max_seq_len,
                                           int64_t doc_stride);

}  // namespace amp
