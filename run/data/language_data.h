// Datasets for language models (causal and masked) and encoder-decoder models: chat templates, packing, masking.
#pragma once

#include <memory>
#include <vector>

#include "data/language/language.h"
#include "data/language/seq2seq.h"
#include "data/text_dataset.h"
#include "run/data/data.h"

namespace amp {

struct DataSpec;
struct RunSpec;

// most: maximum length of a text in tokens; 0: no limit.
LanguageOptions language_options(const RunSpec& spec, int64_t most);
std::shared_ptr<const ChatTemplate> chat_template_of(const RunSpec& spec, const Tokenizer& tokenizer);

// Source and target texts (TextForm::source_and_target), from two --text_columns.
std::unique_ptr<Dataset> open_seq2seq_dataset(const RunSpec& spec, const TextRows& rows, const Tokenizer& tokenizer,
                                              const std::vector<InputSpec>& specs, const DataNeeds& needs);
int64_t longest_target(const DataSpec& data);                                     // tokens of a target; 0: no limit
Seq2SeqOptions seq2seq_options(const RunSpec& spec, const Tokenizer& tokenizer);  // without columns

// For --task seq2seq: replaces --decoder_start_token auto by the token's id, and logs it.
RunSpec with_start_token(RunSpec spec, const Log& log);

// E_PACKING: --packing bfd, and attention of the model would cross the boundaries of packed texts. E_DATA_EMPTY: no row
// has a token to learn.
std::unique_ptr<Dataset> open_language_dataset(const RunSpec& spec, const TextRows& rows, const Tokenizer& tokenizer,
                                               const std::vector<InputSpec>& specs, const TextOptions& t,
                                               const DataNeeds& needs);

}  // namespace amp
