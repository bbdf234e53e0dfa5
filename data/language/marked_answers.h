// Answers that are each marked as desirable or not, as training texts of a causal language model (TRL's "unpaired
// preference" data), for losses such as KTO.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/language/language.h"

namespace amp {

struct MarkedAnswers {
  LabeledTexts texts;           // prompts with answers; only the tokens of answers have labels
  std::vector<char> desirable;  // indexed by text
  int64_t cut = 0;              // number of truncated texts
  int64_t unanswered = 0;       // number of answers left out because none of their labels remains
};

// Returns true if options.columns are pairs of answers (preferences.h), which become two marked answers each: three
// columns, or "chosen" and "rejected".
bool are_pairs(const std::vector<std::string>& columns);

// Returns the options with which LanguageReader reads the answers of a row: one element, or two for pairs (preferred,
// rejected). options.columns: prompt and completion, both texts or both JSON arrays of messages, or those of pairs.
// Throws E_TEXT_COLUMNS for other columns, E_PACKING if options.packing is not none (both Exit::usage).
std::vector<LanguageOptions> marked_options(const Table& table, const LanguageOptions& options);

// Returns the mark of a row: true, false, 1 or 0, also with capital letters. Throws E_DATA_LABEL (Exit::data) for other
// texts and for cells without one.
bool read_mark(const Table& table, int64_t row, size_t column);

// Tokenizes all rows. label: the column of marks, not read for pairs. Throws E_DATA_COLUMN if there is none, and the
// errors of the functions above and of encode_language().
MarkedAnswers encode_marked(const Table& table, const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat,
                            const LanguageOptions& options, const std::string& label);

// Makes a dataset in which a sample has two rows: the answer, and the previous answer of the batch after this answer's
// prompt. The first sample gets the last answer; a sample alone in its batch gets the next answer of the data. The
// second rows serve to estimate the KL divergence of KTO. Batch::more_labels has kDesirable's tensor `mark`, int64 [B].
// Requires at least two texts. names: of the files, by LabeledText::file.
std::unique_ptr<Dataset> make_marked_dataset(MarkedAnswers answers, std::vector<std::string> names,
                                             const Tokenizer& tokenizer, std::vector<InputSpec> inputs,
                                             const TextOptions& options, std::string mark);

}  // namespace amp
