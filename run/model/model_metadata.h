// What a training run writes into the model's metadata, and how evaluation takes it for its defaults.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "data/features/features.h"
#include "importer/read/import.h"
#include "run/data/data_kind.h"
#include "run/spec/spec.h"
#include "trainer/loop/evaluate.h"
#include "trainer/tasks/model_record.h"

namespace amp {

ModelRecord record_of(const RunSpec& spec, const Objective& objective, Task task, DataKind kind, InputRanges ranges,
                      const Features* features = nullptr);

// Exit::usage, E_FEATURES, when the model says nothing of a table; Exit::model when what it says cannot be read.
std::shared_ptr<const Features> recorded_features(const ModelRecord& record);
// The same; where the model records nothing, the columns of --continuous as they are. Codes of categories are known to
// a model's training alone: --categorical is E_FEATURES.
std::shared_ptr<const Features> features_of(const RunSpec& spec, const ModelRecord& record, const Log& log);

ModelRecord recorded(const ModelDoc& doc);

// Metadata of a model that `create` wrote; whoever trains it leaves it there, and a record.
inline constexpr const char* kWeightsKey = "weights";
inline constexpr const char* kDrawnWeights = "drawn";
bool never_trained(const ModelDoc& doc);

// With the record's losses, task and preprocessing where nobody asked for others; says which.
RunSpec with_recorded(RunSpec spec, const ModelRecord& record, const Log& log);

// Data unlike the training's: Exit::data, or warnings (data/input_range.h).
void check_ranges(const InputRanges& trained, const InputRanges& given, const std::string& file, const Log& log);

}  // namespace amp
