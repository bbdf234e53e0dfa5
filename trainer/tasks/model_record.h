// What an exported model says of its training, in metadata_props, so that it can be evaluated and fed without its run:
//   task           a task's name                      labels         JSON: names of classes
//   loss           JSON as --loss takes it            preprocessing  JSON: {flag: value} of how text became ids
//   features       JSON: how a table's columns became numbers (data/features/features.h)
//   input_ranges   JSON: {input: {"type": "float"|"integer", "low": x, "high": y}}
// It follows from settings and data alone: no time, no path, nothing of the run.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/input_range.h"
#include "trainer/tasks/task.h"

namespace amp {

struct ModelRecord {
  Task task = Task::none;
  std::vector<std::string> labels;
  std::vector<LossSpec> losses;
  std::map<std::string, std::vector<std::string>> preprocessing;  // by flag: its value, or a list's
  std::string features = {};                                      // JSON; empty: none
  InputRanges ranges = {};
};

// Every key; an empty value takes away what an earlier training wrote. Losses that need a teacher are left out.
std::map<std::string, std::string> to_metadata(const ModelRecord& record);

// entry(key): that of the file, empty when there is none. Other programs use such keys too: what does not read as ours
// is left out.
ModelRecord from_metadata(const std::function<std::string(const std::string&)>& entry);

}  // namespace amp
