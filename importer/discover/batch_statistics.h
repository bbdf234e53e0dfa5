// Finds the normalizations of a model that compute their statistics from the batch.
#pragma once

#include <vector>

#include "graph/source.h"

namespace amp {

// Returns the indices of nodes that normalize by statistics of the batch: BatchNormalization nodes whose mean depends
// on a model input, and the Sub of x - ReduceMean(x) over axis 0 (the batch) for an x that depends on a model input.
// PyTorch's exporters write such nodes for track_running_stats=False.
std::vector<int> batch_statistics(const SourceGraph& g);

}  // namespace amp
