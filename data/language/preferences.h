// Pairs of answers to the same prompt, of which one is preferred, as training texts of a causal language model.
#pragma once

#include <array>
#include <memory>

#include "data/language/language.h"

namespace amp {

struct AnswerPairs {
  LabeledTexts texts;      // prompt and preferred answer, prompt and rejected answer, ...; only answers have labels
  int64_t cut = 0;         // number of truncated texts
  int64_t unanswered = 0;  // number of rows left out because no label remains of one of their answers
};

// Returns the options with which LanguageReader reads preferred and rejected answers. options.columns: prompt,
// preferred answer and rejected answer (all texts, or all JSON arrays of messages), or two conversations whose last
// answers are compared. Throws E_TEXT_COLUMNS for other columns, E_PACKING if options.packing is not none.
std::array<LanguageOptions, 2> pair_options(const Table& table, const LanguageOptions& options);

// Tokenizes all rows. Throws the errors of pair_options() and encode_language().
AnswerPairs encode_pairs(const Table& table, const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat,
                         const LanguageOptions& options);

}  // namespace amp
