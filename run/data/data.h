// Opens the training and validation data of a run as datasets for a model's inputs.
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
#include "trainer/losses/losses.h"
#include "trainer/tasks/task.h"

namespace amp {

struct RunSpec;
struct TextSpec;

struct TrainData {
  std::unique_ptr<Dataset> train, val;  // val: null if there is no validation data
  bool text = false;                    // samples have lengths
  bool whole_batches = false;           // drop the last batch of an epoch if it is short
};

// The requirements of a run for its dataset: inputs, labels and how to read them.
struct DataNeeds {
  Task task = Task::classification;                     // selects how the label column of a text table is read
  std::vector<int> inputs;                              // graph inputs, as values of the model
  std::vector<InputSpec> more_inputs;                   // inputs of a teacher whose names the model lacks
  std::vector<std::string> labels;                      // names of the tensors that the losses read
  ClassNames classes;                                   // classes, or labels of a multilabel task
  bool sides = false;                                   // each text column is a sequence by itself
  int64_t rows_per_item = 1;                            // consecutive rows of tensors that losses take as one item
  bool labeled = true;                                  // false: for predictions
  bool training = false;                                // images: apply the training transforms
  int64_t mask_classes = 0;                             // classes of the segmentation head; 0: not known
  bool log_matches = false;                             // log which labels are spelled unlike their classes
  std::string column_hint = {};                         // hint of the error for a missing text column
  std::shared_ptr<const Features> features = nullptr;   // how columns of a table become inputs
  std::shared_ptr<const FeatureTable> table = nullptr;  // the table, if it is read already
  Log log = {};
};

std::vector<InputSpec> input_specs(const SourceGraph& graph, const std::vector<int>& inputs);
std::vector<InputSpec> input_specs(const SourceGraph& graph, const DataNeeds& needs);  // with needs.more_inputs

// The values of the losses' outputs in the model's graph. Skips outputs that the graph lacks.
std::vector<int> values_of(const SourceGraph& graph, const Losses& losses);

// --tokenizer, else --vocab, else the tokenizer in the model's folder. Empty: there is none.
std::string tokenizer_path(const RunSpec& spec);
TokenizerOptions tokenizer_options(const TextSpec& text);

AnswerOptions answer_options(const TextSpec& text);  // for extractive question answering

bool has_named_classes(Task task);
bool is_masked_language_model(const RunSpec& spec);  // --loss names only losses of masked tokens
bool is_language_model(const RunSpec& spec);         // that, or only losses of causal language models
// Chooses the task of text or image data by the losses, the kind of file and the label column. Language for losses of
// language models, segmentation for masks, token for .conll files, span for SQuAD's JSON. Multilabel for several label
// columns, regression if the label column holds fractions, else classification.
Task text_task(const RunSpec& spec);

// The distinct labels of a file: in natural order, or in the order in which the data's own files number them.
struct DataLabels {
  std::vector<std::string> texts;  // empty: no classes, or masks
  bool numbered = false;           // the data's own files number them
};
// Logs which labels of a file are spelled differently from their classes.
void log_matches(const std::vector<std::string>& labels, const std::string& file, const ClassNames& classes,
                 const Log& log);
// training: fails with E_DATA_LABEL if all rows have one label.
DataLabels read_labels(const RunSpec& spec, const std::string& path, Task task, bool training);

// Compares the vocabulary's size with the rows of the embedding table that token ids index. A larger vocabulary is
// E_VOCAB_SIZE (exit 5): some token ids would be out of range. A smaller one is a warning, unless the table is padded
// to a multiple of 64.
void check_vocabulary(const RunSpec& spec, const SourceGraph& graph, const std::vector<int>& inputs, const Log& log);

// Opens `path` by its kind (data_kind.h). Checks that token ids are in the range of the embedding tables. batch_size:
// only for tensors.
std::unique_ptr<Dataset> open_dataset(const RunSpec& spec, const std::string& path, const SourceGraph& graph,
                                      const DataNeeds& needs, int64_t batch_size);
std::unique_ptr<Dataset> open_text_dataset(const RunSpec& spec, const TextRows& rows, const SourceGraph& graph,
                                           const DataNeeds& needs);

// The settings for reading --val: its own text and label columns, masks and label files replace those of --train.
RunSpec validation_spec(RunSpec spec);

// Order and batches of the training data. E_USAGE for --in_tokens without texts, or with a text that is longer than
// --batch_size. E_WEIGHTED_SAMPLING for --weighted_sampling without classes, or with --shuffle false.
SamplerOptions sampler_options(const RunSpec& spec, const Dataset& train, bool text);

}  // namespace amp
