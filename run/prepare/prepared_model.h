// PreparedModel: the model with head and adapters, its objective and the parameters that train.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "data/class_names.h"
#include "importer/read/import.h"
#include "run/data/data_kind.h"
#include "run/model/surgery.h"
#include "run/prepare/param_groups.h"
#include "run/spec/job.h"
#include "trainer/loop/evaluate.h"
#include "trainer/tasks/task_name.h"

namespace amp {

struct RunSpec;

// Facts about the training data that model preparation depends on. They are stored in the run's folder, so that an
// export needs no data.
struct DataFacts {
  bool text = false;         // a table of texts
  bool images = false;       // a folder or a table of image files
  bool features = false;     // a table of features; none of the three: a file of tensors
  bool sides = false;        // each text column is a separate sequence
  Task task = Task::none;    // determines how labels are read
  ClassNames classes;        // in the order of the model's outputs
  std::string class_source;  // where the order of the classes comes from, for messages
  DataKind kind() const {
    return text ? DataKind::text : images ? DataKind::images : features ? DataKind::features : DataKind::tensors;
  }
};

struct PreparedModel {
  Imported model;  // with its head, dropout and adapters
  Task task = Task::none;
  Objective objective;
  std::vector<int> outputs;  // graph values that the losses read
  Trainable trainable;
  ParamGroups groups;
};
// Adds head, dropout and adapters, and chooses the objective and the trainable parameters. The result depends only on
// the model, `facts` and the settings, not on the data files.
PreparedModel prepare_model(const RunSpec& spec, Job job, Imported model, const DataFacts& facts, const Log& log);

}  // namespace amp
