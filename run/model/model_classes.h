// The classes of a run: names from the model, from files in its folder and from the data, merged by data/class_order.h.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "data/class_order.h"
#include "importer/read/import.h"
#include "run/data/data.h"
#include "trainer/losses/losses.h"

namespace amp {

struct ModelSpec;
struct RunSpec;

// Returns the class names in the file's metadata, its graph, or a config.json in its folder. The most reliable source
// comes first.
std::vector<KnownClasses> known_classes(const ModelSpec& spec, const Imported& model);

// Replaces a file name in `labels` by the names in that file. Throws E_LABELS for a file without names.
RunSpec with_label_file(RunSpec spec);

// Returns the order of the classes of a training run, and logs it. resumed: the classes of the run that is continued.
ClassOrder training_classes(const RunSpec& spec, const Imported& model, Task task, DataKind kind,
                            const DataLabels& labels, const std::vector<std::string>& resumed, const Log& log);

// Returns and logs the classes of the output that the loss reads, for evaluation and predictions. labels: the labels of
// the data; empty for predictions.
ClassOrder model_classes(const RunSpec& spec, const Imported& model, Task task, const LossSpec& loss,
                         const DataLabels& labels, const Log& log);

// Returns class names for training on tensors, whose labels are ids. Empty if no names are known.
ClassNames named_classes(const RunSpec& spec, const Imported& model, Task task, const LossSpec& loss, const Log& log);

// Sets the task to multilabel or regression if the config.json in the model's folder has this problem_type and neither
// a task nor a loss is given.
RunSpec with_problem_type(RunSpec spec, const Log& log);

}  // namespace amp
