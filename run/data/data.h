// The training and validation data of a run, as datasets for a model's inputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/class_names.h"
#include "data/dataset.h"
#include "data/features/features.h"
#include "data/sampler.h"
#include "data/tokenizer.h"
#include "graph/source.h"
#include "run/data/data_kind.h"
#include "run/data/text_rows.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task.h"

namespace amp {

struct TrainData {
  std::unique_ptr<Dataset> train, val;  // val: null without any
  bool text = false;                    // samples have lengths
  bool whole_batches = false;           // an epoch's short last batch is left out
};

// What a dataset must hold for a run.
struct DataNeeds {
  Task task = Task::classification;                     // how the label column of a text table is read
  std::vector<int> inputs;                              // graph inputs, as values of the model
  std::vector<InputSpec> more_inputs;                   // of a teacher, where the model has none of that name
  std::vector<std::string> labels;                      // tensors that the losses want, by name
  ClassNames classes;                                   // of classes, or of a multilabel task's labels
  bool sides = false;                                   // text columns are sequences of their own
  int64_t rows_per_item = 1;                            // rows of tensors that the losses take in turn as one item
  bool labelled = true;                                 // false: to predict
  bool training = false;                                // images: with the training's transforms
  int64_t mask_classes = 0;                             // of the head that masks are for; 0: not known
  bool tell_matches = false;                            // say which labels are not written as their classes
  std::string column_hint = {};                         // of a text's column that is not there
  std::shared_ptr<const Features> features = nullptr;   // of a table of features
  std::shared_ptr<const FeatureTable> table = nullptr;  // where it is read already
  Log log = {};
};

std::vector<InputSpec> input_specs(const SourceGraph& graph, const std::vector<int>& inputs);
std::vector<InputSpec> input_specs(const SourceGraph& graph,
                                   const DataNeeds& needs);  // with those that the model lacks

// tokenizer, else vocab, else what lies beside the model; empty: there is none.
std::string tokenizer_path(const RunSpec& spec);
TokenizerOptions tokenizer_options(const RunSpec& spec);

AnswerOptions answer_options(const RunSpec& spec);  // of questions

bool has_named_classes(Task task);
bool is_masked_language_model(const RunSpec& spec);  // the loss asked for is about tokens that are hidden
bool is_language_model(const RunSpec& spec);         // that, or a loss of causal language models
// Of a text table: language for the loss of a causal language model; regression when the label column holds fractions,
// else classification.
Task text_task(const RunSpec& spec);

// The labels of a file: distinct ones, in natural order or, where the data's own files number them, in that.
struct DataLabels {
  std::vector<std::string> texts;  // empty: no classes, or masks
  bool numbered = false;
};
// training: E_DATA_LABEL where there is one alone.
DataLabels read_labels(const RunSpec& spec, const std::string& path, Task task, bool training);

// The vocabulary against the table that token ids look up. Larger: E_VOCAB_SIZE (exit 5), some text would reach beyond
// the table. Smaller: a warning, unless the table is padded to a multiple of 64.
void check_vocabulary(const RunSpec& spec, const SourceGraph& graph, const std::vector<int>& inputs, const Log& log);

// Also checks token ids against embedding tables.
std::unique_ptr<Dataset> open_dataset(const RunSpec& spec, const std::string& path, const SourceGraph& graph,
                                      const DataNeeds& needs, int64_t batch_size);
std::unique_ptr<Dataset> open_text_dataset(const RunSpec& spec, const TextRows& rows, const SourceGraph& graph,
                                           const DataNeeds& needs);

// As --val is read: with the names of its own columns, and its masks.
RunSpec validation_spec(RunSpec spec);

// Of the training data. E_USAGE for --in_tokens without texts, or with one that is longer than --batch_size;
// E_WEIGHTED_SAMPLING for --weighted_sampling without classes, or with --shuffle false.
SamplerOptions sampler_options(const RunSpec& spec, const Dataset& train, bool text);

}  // namespace amp
