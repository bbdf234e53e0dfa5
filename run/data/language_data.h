// Datasets for language models (causal and masked) and encoder-decoder models: chat templates, packing, masking.
#pragma once

#include <memory>
#include <vector>

#include "data/language/language.h"
#include "data/language/seq2seq.h"
#include "data/text_dataset.h"
#include "run/data/data_needs.h"
#include "run/data/text_rows.h"

namespace amp {

struct DataSpec;
struct RunSpec;

// `most`: maximum length of a text in tokens; 0: no limit.
LanguageOptions language_options(const RunSpec& spec, int64_t most);
// Returns the options by which LanguageReader reads a row: two for a pair of answers, one for other data.
std::vector<LanguageOptions> answer_options_of(Task task, const Table& table, const LanguageOptions& options);
// Returns true if the task's answers have marks in `label_column`.
bool reads_marks(const DataSpec& data, Task task);
std::shared_ptr<const ChatTemplate> chat_template_of(const RunSpec& spec, const Tokenizer& tokenizer);

// Opens source and target texts (TextForm::source_and_target), which are the two columns of `text_columns`.
std::unique_ptr<Dataset> open_seq2seq_dataset(const RunSpec& spec, const TextRows& rows, const Tokenizer& tokenizer,
                                              const std::vector<InputSpec>& specs, const DataNeeds& needs);
// Returns the maximum length of a target in tokens; 0: no limit.
int64_t longest_target(const DataSpec& data);
Seq2SeqOptions seq2seq_options(const RunSpec& spec, const Tokenizer& tokenizer);  // does not set the columns

// For the task seq2seq: replaces a `decoder_start_token` of auto by the token's id, and logs it.
RunSpec with_start_token(RunSpec spec, const Log& log);

// Opens texts for a causal or masked language model. Throws E_PACKING if `packing` is bfd and the model's attention
// would cross the boundaries of packed texts. Throws E_DATA_EMPTY if no row has a token for which a loss is computed.
std::unique_ptr<Dataset> open_language_dataset(const RunSpec& spec, const TextRows& rows, const Tokenizer& tokenizer,
                                               const std::vector<InputSpec>& specs, const TextOptions& t,
                                               const DataNeeds& needs);

}  // namespace amp
