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
#include "run/data/data_needs.h"
#include "run/data/text_rows.h"
#include "run/data/text_settings.h"
#include "trainer/losses/losses.h"
#include "trainer/tasks/task.h"

namespace amp {

struct RunSpec;

// Returns the task of text or image data. It depends on the losses, the kind of file and the label column. It is
// language for losses of language models, segmentation for masks, token for .conll files, and span for SQuAD's JSON.
// Several label columns give multilabel, a label column with fractions gives regression, all others give
// classification.
Task text_task(const RunSpec& spec);

// The distinct labels of a file, in natural order or in the order in which the data's own files number them.
struct DataLabels {
  std::vector<std::string> texts;  // empty if the data have no classes, or are masks
  bool numbered = false;           // `texts` are in the order in which the data's own files number them
};
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
