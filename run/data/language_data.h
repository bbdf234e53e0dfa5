// Texts of language models as datasets: conversations in the model's template, packed into sequences, tokens hidden.
#pragma once

#include <memory>
#include <vector>

#include "data/language/language.h"
#include "data/language/seq2seq.h"
#include "data/text_dataset.h"
#include "run/data/data.h"

namespace amp {

// most: the longest text, in tokens.
LanguageOptions language_options(const RunSpec& spec, int64_t most);
std::shared_ptr<const ChatTemplate> chat_template_of(const RunSpec& spec, const Tokenizer& tokenizer);

// Source and target texts (Task::seq2seq), in two --text_columns.
std::unique_ptr<Dataset> open_seq2seq_dataset(const RunSpec& spec, const TextRows& rows, const Tokenizer& tokenizer,
                                              const std::vector<InputSpec>& specs, const DataNeeds& needs);
int64_t longest_target(const RunSpec& spec);                                      // tokens of a target, 0: any
Seq2SeqOptions seq2seq_options(const RunSpec& spec, const Tokenizer& tokenizer);  // without columns

// Of --task seq2seq: --decoder_start_token auto as what it stands for, which is told.
RunSpec with_start_token(RunSpec spec, const Log& log);

// E_PACKING: a model that cannot keep packed texts apart; E_DATA_EMPTY: nothing to learn in any row.
std::unique_ptr<Dataset> open_language_dataset(const RunSpec& spec, const TextRows& rows, const Tokenizer& tokenizer,
                                               const std::vector<InputSpec>& specs, const TextOptions& t,
                                               const DataNeeds& needs);

}  // namespace amp
