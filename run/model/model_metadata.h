// The record that a training run writes into the model's metadata, and its use as defaults for evaluation.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "data/features/features.h"
#include "importer/read/import.h"
#include "run/data/data_kind.h"
#include "trainer/loop/evaluate.h"
#include "trainer/tasks/model_record.h"

namespace amp {

struct DataSpec;
struct RunSpec;

ModelRecord record_of(const RunSpec& spec, const Objective& objective, Task task, DataKind kind, InputRanges ranges,
                      const Features* features = nullptr);

// Exit::usage E_FEATURES: the model records no features of a table. Exit::model: the record cannot be read.
std::shared_ptr<const Features> recorded_features(const ModelRecord& record);
// The recorded features or, if the model records none, the columns of --continuous without scaling. E_FEATURES for
// --categorical: only a training run assigns codes to categories.
std::shared_ptr<const Features> features_of(const DataSpec& data, const ModelRecord& record, const Log& log);

ModelRecord recorded(const ModelDoc& doc);

// Metadata of a model that `create` wrote. Training keeps it, and adds a record.
inline constexpr const char* kWeightsKey = "weights";
inline constexpr const char* kDrawnWeights = "drawn";
bool never_trained(const ModelDoc& doc);

// Applies the record's losses, task and preprocessing as defaults for settings that are not given; logs them.
RunSpec with_recorded(RunSpec spec, const ModelRecord& record, const Log& log);

// Compares the data with the ranges of the training data: Exit::data, or warnings (data/input_range.h).
void check_ranges(const InputRanges& trained, const InputRanges& given, const std::string& file, const Log& log);

}  // namespace amp
