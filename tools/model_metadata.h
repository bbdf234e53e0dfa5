// What a training run writes into the model's metadata, and how eval takes it for its flags' defaults.
#pragma once

#include "importer/import.h"
#include "tools/cli/options.h"
#include "trainer/evaluate.h"
#include "trainer/model_record.h"

namespace amp {

ModelRecord record_of(const cli::Options& opts, const Objective& objective, Task task, bool text, InputRanges ranges);

ModelRecord recorded(const ModelDoc& doc);

// The options with the record's losses, task and preprocessing where the user set none; says which.
cli::Options with_recorded(cli::Options opts, const ModelRecord& record);

// Data unlike the training's: Exit::data, or warnings (data/input_range.h).
void check_ranges(const InputRanges& trained, const InputRanges& given, const std::string& file);

}  // namespace amp
