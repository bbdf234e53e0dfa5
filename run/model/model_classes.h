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

// Class names in the file's metadata, its graph, or a config.json in its folder. The most reliable source first.
std::vector<KnownClasses> known_classes(const ModelSpec& spec, const Imported& model);

// If --labels names a file, replaces it by the names in the file. E_LABELS for a file without names.
RunSpec with_label_file(RunSpec spec);

// The order of the classes of a training run; logs it. resumed: classes of the run that is resumed.
ClassOrder training_classes(const RunSpec& spec, const Imported& model, Task task, DataKind kind,
                            const DataLabels& labels, const std::vector<std::string>& resumed, const Log& log);

// Classes of the output that the loss reads, for evaluation and predictions; logs them. labels: those of the data;
// empty for predictions.
ClassOrder model_classes(const RunSpec& spec, const Imported& model, Task task, const LossSpec& loss,
                         const DataLabels& labels, const Log& log);

// Class names for training on tensors, whose labels are ids. Empty if there are no names.
ClassNames named_classes(const RunSpec& spec, const Imported& model, Task task, const LossSpec& loss, const Log& log);

// Sets the task by problem_type of the config.json in the model's folder (multilabel or regression), if no task and no
// loss is given.
RunSpec with_problem_type(RunSpec spec, const Log& log);

}  // namespace amp
