// Datasets of source and target texts for an encoder-decoder model (T5, BART, Marian). A batch has the form of
// transformers' DataCollatorForSeq2Seq:
//   input_ids, attention_mask, ..        the source
//   decoder_input_ids, decoder_.. masks  the target shifted right, after the decoder start token
//   labels                               the target's ids with the end-of-text token
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/table.h"
#include "data/text_dataset.h"

namespace amp {

struct Seq2SeqOptions {
  std::string source, target;  // names of columns
  std::string prefix;          // text before each source, such as T5's task
  int64_t max_source = 0, max_target = 0;
  int32_t start = 0;  // decoder start token; >= 0
};

struct Seq2SeqTexts {
  LabeledTexts sources, targets;
  int64_t cut = 0;  // number of rows whose source or target was truncated
};

LabeledText seq2seq_source(std::string_view text, const Tokenizer& tokenizer, const Seq2SeqOptions& options);
// Returns the decoder's input and the labels for the target ids.
LabeledText seq2seq_target(std::vector<int32_t> ids, const Seq2SeqOptions& options);
Seq2SeqTexts encode_seq2seq(const Table& table, const Tokenizer& tokenizer, const Seq2SeqOptions& options);

// Makes the dataset. Sources and targets are padded to the longest of the batch, rounded up to pad_to_multiple. Throws
// E_DATA_INPUT for a graph input that reads neither sources nor targets, and if no input reads targets.
std::unique_ptr<Dataset> make_seq2seq_dataset(Seq2SeqTexts texts, const std::vector<std::string>& names,
                                              const Tokenizer& tokenizer, const std::vector<InputSpec>& inputs,
                                              int64_t pad_to_multiple, const Seq2SeqOptions& options);

}  // namespace amp
