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

// Returns the features that the model records. Throws E_FEATURES_MISSING (Exit::usage) if it records none, and
// Exit::model if the record cannot be read.
std::shared_ptr<const Features> recorded_features(const ModelRecord& record);
// Returns the recorded features. If the model records none, returns the columns of `continuous` without scaling;
// `categorical` then throws E_FEATURES, because only a training run assigns codes to categories.
std::shared_ptr<const Features> features_of(const DataSpec& data, const ModelRecord& record, const Log& log);

ModelRecord recorded(const ModelDoc& doc);

// The key and value in the metadata of a model that `create` wrote and that is not trained. Training keeps the entry
// and adds a record. never_trained() returns whether the model has the entry and no record.
inline constexpr const char* kWeightsKey = "weights";
inline constexpr const char* kDrawnWeights = "drawn";
bool never_trained(const ModelDoc& doc);

// Sets the settings that are not given to the record's losses, task and preprocessing; logs them.
RunSpec with_recorded(RunSpec spec, const ModelRecord& record, const Log& log);

// Compares the value ranges of the data's inputs (`given`) with those of the training data. Throws Exit::data or logs
// warnings, as data/input_range.h defines.
void check_ranges(const InputRanges& trained, const InputRanges& given, const std::string& file, const Log& log);

}  // namespace amp
