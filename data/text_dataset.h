// Datasets of text rows for transformer encoders and language models, tokenized once. A batch is padded to its longest
// sample, rounded up to pad_to_multiple and at most max_seq_len.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/labeled_texts.h"
#include "data/labels.h"
#include "data/tokenizer.h"

namespace amp {

// The data that a graph input is fed with. text_role() finds it by the input's name without a trailing ":0": input_ids;
// attention_mask, input_mask; token_type_ids, segment_ids; position_ids; label, labels, target, targets (of a model
// that computes its loss itself). It returns nullopt for other names.
enum class TextRole : uint8_t { ids, mask, types, positions, label };
std::optional<TextRole> text_role(const std::string& input_name);

struct TextOptions {
  std::vector<std::string> text_columns = {};  // one column, or two for pairs
  // true: each column is a separate sequence, and a sample has one row per column, in order. false: two columns form
  // one sequence, [CLS] a [SEP] b [SEP].
  bool sides = false;
  std::string label_column = {};  // empty: no labels
  LabelForm labels = LabelForm::classes;
  char label_separator = 0;       // separator of the label names in a cell of LabelForm::sets; 0: detected
  ClassNames classes = {};        // class names, for labels that are classes or sets
  std::string input_prefix = {};  // prefix of input names, removed before text_role()
  bool sees_ahead = false;        // for LabelForm::ids: the model is a masked language model, not a causal one
  int64_t max_seq_len = 128;
  int64_t pad_to_multiple = 8;
  int64_t fixed_seq_len = 0;  // > 0: length of every batch (graphs with a static sequence dimension)
};

// Returns the only sequence length that the inputs accept; 0: any.
int64_t fixed_length(const std::vector<InputSpec>& inputs);

// Makes a dataset of the table's texts. Throws E_DATA_INPUT (exit 5) for an input without a role.
std::unique_ptr<Dataset> make_text_dataset(const Table& table, const Tokenizer& tokenizer,
                                           std::vector<InputSpec> inputs, const TextOptions& options);

// Makes a dataset of texts that carry their labels. With options.sides, a sample has two consecutive texts. `names` are
// the names of the files, indexed by LabeledText::file. The columns and the separator in `options` are not used. key:
// the reference answers of questions, else null.
std::unique_ptr<Dataset> make_labeled_dataset(LabeledTexts texts, std::vector<std::string> names,
                                              const Tokenizer& tokenizer, std::vector<InputSpec> inputs,
                                              const TextOptions& options,
                                              std::shared_ptr<const AnswerKey> key = nullptr);
// As above, with the token id of padding instead of the tokenizer, and without a key.
std::unique_ptr<Dataset> make_labeled_dataset(LabeledTexts texts, std::vector<std::string> names, int32_t pad,
                                              std::vector<InputSpec> inputs, const TextOptions& options);

}  // namespace amp
