// Opens the training and validation data of a run as datasets for a model's inputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/safetensors.h"
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
  bool text = false;                    // the samples are texts, which differ in length
  bool whole_batches = false;           // the last batch of an epoch is dropped if it is short
};

// Requirements of a job on its dataset: the inputs, the labels, and how to read them.
struct DataNeeds {
  Task task = Task::classification;  // selects how the label column of a text table is read
  // Inputs of the model that the dataset feeds, as indices of values of its graph.
  std::vector<int> inputs;
  std::vector<InputSpec> more_inputs;  // inputs of the teacher that the model does not have
  std::vector<std::string> labels;     // names of the tensors that the losses read
  ClassNames classes;                  // classes, or labels of a multilabel task
  // Each text column is a separate sequence, as for sentence pairs in an embedding model.
  bool sides = false;
  // For tensors: the number of consecutive rows that a loss reads together.
  int64_t rows_per_item = 1;
  bool labeled = true;                                 // false: the labels are not read (predictions)
  bool training = false;                               // apply the training transforms to images
  int64_t mask_classes = 0;                            // classes of the segmentation head; 0: unknown
  bool log_matches = false;                            // log the labels that are spelled differently from their classes
  std::string column_hint = {};                        // hint of the error that reports a missing text column
  std::shared_ptr<const Features> features = nullptr;  // how the columns of a table of features become inputs
  std::shared_ptr<const FeatureTable> table = nullptr;  // the table of features, if it has been read already
  Log log = {};
};

std::vector<InputSpec> input_specs(const SourceGraph& graph, const std::vector<int>& inputs);
std::vector<InputSpec> input_specs(const SourceGraph& graph, const DataNeeds& needs);  // also returns needs.more_inputs

// Returns the indices, in the graph's values, of the outputs that the losses read. Outputs that the graph lacks are
// skipped.
std::vector<int> values_of(const SourceGraph& graph, const Losses& losses);

// Returns `tokenizer`, else `vocab`, else the tokenizer in the model's folder, or an empty path if there is none.
std::string tokenizer_path(const RunSpec& spec);
TokenizerOptions tokenizer_options(const TextSpec& text);

AnswerOptions answer_options(const TextSpec& text);  // for extractive question answering

bool has_named_classes(Task task);
bool is_masked_language_model(const RunSpec& spec);  // true if `loss` names only losses of masked tokens
// True for a masked language model, or if `loss` names only losses of causal language models.
bool is_language_model(const RunSpec& spec);
// Returns the task of text or image data. It depends on the losses, the kind of file and the label column:
// language for losses of language models, segmentation for masks, token for .conll files, span for SQuAD's JSON,
// multilabel for several label columns, regression for a label column with fractions, else classification.
Task text_task(const RunSpec& spec);

// The distinct labels of a file, in natural order or in the order in which the data's own files number them.
struct DataLabels {
  std::vector<std::string> texts;  // empty if the data have no classes, or are masks
  bool numbered = false;           // `texts` are in the order in which the data's own files number them
};
// Logs the labels of a file that are spelled differently from their classes.
void log_matches(const std::vector<std::string>& labels, const std::string& file, const ClassNames& classes,
                 const Log& log);
// Returns the labels of the file. Throws E_DATA_LABEL if `training` is true and all rows have one label.
DataLabels read_labels(const RunSpec& spec, const std::string& path, Task task, bool training);

// Compares the vocabulary's size with the rows of the embedding table that token ids index. Throws E_VOCAB_SIZE (exit
// 5) if the vocabulary is larger, because some token ids would be out of range. Warns if it is smaller, unless the
// table is padded to a multiple of 64.
void check_vocabulary(const RunSpec& spec, const SourceGraph& graph, const std::vector<int>& inputs, const Log& log);

// Opens `path` as the kind of data that data_kind() returns. Checks that token ids are in the range of the embedding
// tables. `batch_size` is used only for tensors.
std::unique_ptr<Dataset> open_dataset(const RunSpec& spec, const std::string& path, const SourceGraph& graph,
                                      const DataNeeds& needs, int64_t batch_size);
// As open_dataset() for a file of tensors, with tensors that are in memory already. `name` stands for the file in
// errors.
std::unique_ptr<Dataset> open_tensors(std::vector<NamedTensor> tensors, const std::string& name,
                                      const SourceGraph& graph, const DataNeeds& needs, int64_t batch_size);
std::unique_ptr<Dataset> open_text_dataset(const RunSpec& spec, const TextRows& rows, const SourceGraph& graph,
                                           const DataNeeds& needs);

// Returns the settings for reading `val`: its own text and label columns, masks and label files replace those of
// `train`.
RunSpec validation_spec(RunSpec spec);

// Returns how the training data are ordered and divided into batches. Throws E_USAGE for `in_tokens` without texts, or
// if a text is longer than `batch_size`. Throws E_WEIGHTED_SAMPLING if `weighted_sampling` is used without classes or
// without `shuffle`.
SamplerOptions sampler_options(const RunSpec& spec, const Dataset& train, bool text);

}  // namespace amp
