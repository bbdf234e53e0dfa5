// Notes on batch sizes that training computes with, but that are probably not meant.
#pragma once

#include "base/log.h"
#include "graph/source.h"
#include "run/data/data.h"

namespace amp {

struct RunSpec;

// Logs a note if `batchnorm` is train and a micro-batch has one sample: every one, or, for a BatchNorm of (B, C), the
// last one of an epoch. Batch statistics of one row make each output its bias.
void note_small_batches(const RunSpec& spec, const SourceGraph& graph, const TrainData& data, const Log& log);

}  // namespace amp
