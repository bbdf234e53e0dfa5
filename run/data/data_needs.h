// DataNeeds: the requirements of a job on its datasets. TrainData: the datasets that are opened for training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/class_names.h"
#include "data/dataset.h"
#include "data/features/features.h"
#include "data/table.h"
#include "graph/source.h"
#include "trainer/losses/losses.h"
#include "trainer/tasks/task_name.h"

namespace amp {

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
  std::vector<SkippedRow>* skipped = nullptr;          // receives the rows that `skip_bad_rows` left out; may be null
  std::shared_ptr<const FeatureTable> table = nullptr;  // the table of features, if it has been read already
  Log log = {};
};

std::vector<InputSpec> input_specs(const SourceGraph& graph, const std::vector<int>& inputs);
std::vector<InputSpec> input_specs(const SourceGraph& graph, const DataNeeds& needs);  // also returns needs.more_inputs

// Returns the indices, in the graph's values, of the outputs that the losses read. Outputs that the graph lacks are
// skipped.
std::vector<int> values_of(const SourceGraph& graph, const Losses& losses);

// Logs the labels of a file that are spelled differently from their classes.
void log_matches(const std::vector<std::string>& labels, const std::string& file, const ClassNames& classes,
                 const Log& log);

}  // namespace amp
