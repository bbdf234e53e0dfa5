// The classes of a run: what the model, the files beside it and the data know of them, put together by
// data/class_order.h.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "data/class_order.h"
#include "importer/read/import.h"
#include "run/data/data.h"
#include "run/spec/spec.h"
#include "trainer/losses/losses.h"

namespace amp {

// Names that the file's metadata, its graph or a config.json beside it give to its classes, what counts most first.
std::vector<KnownClasses> known_classes(const RunSpec& spec, const Imported& model);

// With `labels` as a list of names where it named a file of them. E_LABELS for a file that holds none.
RunSpec with_label_file(RunSpec spec);

// The order of the classes that a training run has, said once. resumed: those of the run that goes on.
ClassOrder training_classes(const RunSpec& spec, const Imported& model, Task task, DataKind kind,
                            const DataLabels& labels, const std::vector<std::string>& resumed, const Log& log);

// Of a model that is evaluated or predicts with: the classes of the output that the loss reads. labels: of the data;
// none to predict.
ClassOrder model_classes(const RunSpec& spec, const Imported& model, Task task, const LossSpec& loss,
                         const DataLabels& labels, const Log& log);

// Names of the classes of a model that trains on tensors, whose labels are ids already; empty when nobody named them.
ClassNames named_classes(const RunSpec& spec, const Imported& model, Task task, const LossSpec& loss, const Log& log);

// Says which labels of a file are not written as their classes are.
void tell_matches(const std::vector<std::string>& labels, const std::string& file, const ClassNames& classes,
                  const Log& log);

// The task that problem_type of a config.json beside the model names, where nobody asked for a task
// or a loss: several labels a text, or a number.
RunSpec with_problem_type(RunSpec spec, const Log& log);

}  // namespace amp
