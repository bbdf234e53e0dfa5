// Source and target texts of an encoder-decoder model (T5, BART, Marian), which reads the one and learns to write the
// other:
//   input_ids, attention_mask, ..        the source
//   decoder_input_ids, decoder_.. masks  the target one place later, behind the token that targets begin with
//   labels                               the target's ids, its end-of-text token included
// as transformers' DataCollatorForSeq2Seq makes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/table.h"
#include "data/text_dataset.h"

namespace amp {

struct Seq2SeqOptions {
  std::string source, target;  // columns
  std::string prefix;          // in front of each source: T5's task
  int64_t max_source = 0, max_target = 0;
  int32_t start = 0;  // what targets begin with; >= 0
};

struct Seq2SeqTexts {
  LabelledTexts sources, targets;
  int64_t cut = 0;  // rows that lost the end of one of the two
};

LabelledText seq2seq_source(std::string_view text, const Tokenizer& tokenizer, const Seq2SeqOptions& options);
// What the decoder reads before it has written ids, and the labels that follow from them.
LabelledText seq2seq_target(std::vector<int32_t> ids, const Seq2SeqOptions& options);
Seq2SeqTexts encode_seq2seq(const Table& table, const Tokenizer& tokenizer, const Seq2SeqOptions& options);

// Batches whose sources, and whose targets, are padded to the longest of them, rounded up to pad_to_multiple.
// E_DATA_INPUT for an input that is neither's, and where nothing reads a target.
std::unique_ptr<Dataset> make_seq2seq_dataset(Seq2SeqTexts texts, const std::vector<std::string>& names,
                                              const Tokenizer& tokenizer, const std::vector<InputSpec>& inputs,
                                              int64_t pad_to_multiple, const Seq2SeqOptions& options);

}  // namespace amp
