// A record of training that an exported model stores in metadata_props, so that the model can be evaluated and used
// without the run's files:
//   task           a task's name                      labels         JSON: names of classes
//   loss           JSON as --loss takes it            preprocessing  JSON: {flag: value} of how text became ids
//   features       JSON: how a table's columns became numbers (data/features/features.h)
//   input_ranges   JSON: {input: {"type": "float"|"integer", "low": x, "high": y}}
// The record depends only on settings and data. It contains no time and no path.
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
  std::map<std::string, std::vector<std::string>> preprocessing;  // flag -> its value, or the values of a list
  std::string features = {};                                      // JSON; empty: none
  InputRanges ranges = {};
};

// Returns every key. An empty value removes the entry of an earlier training. Losses that need a teacher are omitted.
std::map<std::string, std::string> to_metadata(const ModelRecord& record);

// Reads a record. entry(key) returns the file's entry, empty if there is none. Other programs use some of these keys
// too, so entries that do not parse are ignored.
ModelRecord from_metadata(const std::function<std::string(const std::string&)>& entry);

}  // namespace amp
