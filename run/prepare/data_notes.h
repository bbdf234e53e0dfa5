// Notes on data settings that training accepts, but that are probably not meant.
#pragma once

#include "base/log.h"
#include "data/features/features.h"
#include "graph/source.h"
#include "importer/read/import.h"
#include "run/data/data.h"

namespace amp {

struct RunSpec;

// Logs a note if `batchnorm` is train and
// * it was requested, and the model has no BatchNorm;
// * every micro-batch has one sample, or, for a BatchNorm of (B, C), the last one of an epoch has. With the statistics
//   of a single row, each output of the BatchNorm equals its bias.
void note_batch_norms(const RunSpec& spec, const SourceGraph& graph, const TrainData& data, const Log& log);

// Logs a note if the numbers of a table are scaled for a model that another program may have trained on unscaled ones.
void note_scaled_numbers(const RunSpec& spec, const Imported& model, const Features& features, const Log& log);

}  // namespace amp
