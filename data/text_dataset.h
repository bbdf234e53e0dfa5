// Text rows, tokenized once, as the inputs of a BERT-like graph. Batches are padded to their longest sample, rounded up
// to pad_to_multiple and never above max_seq_len.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/labelled_texts.h"
#include "data/labels.h"
#include "data/tokenizer.h"

namespace amp {

// What an input of that name is fed with; a trailing ":0" is ignored. Names: input_ids; attention_mask, input_mask;
// token_type_ids, segment_ids; position_ids; label, labels, target (of a model that computes its own loss).
enum class TextRole : uint8_t { ids, mask, types, positions, label };
std::optional<TextRole> text_role(const std::string& input_name);

struct TextOptions {
  std::vector<std::string> text_columns = {};  // one, or two for pairs
  // Each column is a sequence of its own: a sample is a row for each, one after the other. Else two columns are one
  // sequence, [CLS] a [SEP] b [SEP].
  bool sides = false;
  std::string label_column = {};  // empty: no labels
  LabelForm labels = LabelForm::classes;
  char label_separator = 0;       // of sets in one cell; 0: found in the column
  ClassNames classes = {};        // of classes or sets
  std::string input_prefix = {};  // of the inputs' names, before what text_role() knows
  bool sees_ahead = false;        // LabelForm::ids: of a masked language model, not a causal one
  int64_t max_seq_len = 128;
  int64_t pad_to_multiple = 8;
  int64_t fixed_seq_len = 0;  // > 0: every batch has this length (graphs with a static sequence dimension)
};

// The only length of texts that the inputs take; 0: any.
int64_t fixed_length(const std::vector<InputSpec>& inputs);

// inputs: an input without a role is E_DATA_INPUT (exit 5).
std::unique_ptr<Dataset> make_text_dataset(const Table& table, const Tokenizer& tokenizer,
                                           std::vector<InputSpec> inputs, const TextOptions& options);

// Of options, columns and separator are not used. key: of questions, else null.
std::unique_ptr<Dataset> make_labelled_dataset(LabelledTexts texts, std::vector<std::string> names,
                                               const Tokenizer& tokenizer, std::vector<InputSpec> inputs,
                                               const TextOptions& options,
                                               std::shared_ptr<const AnswerKey> key = nullptr);

}  // namespace amp
