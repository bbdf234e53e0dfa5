// Normalizations by statistics over the batch that are a part of the model itself.
#pragma once

#include <vector>

#include "graph/source.h"

namespace amp {

// Indices of such nodes: BatchNormalization nodes whose mean is computed from an input of the model, and differences
// x - ReduceMean(x) over the first axis of such an x (axis 0 is the batch's). PyTorch's exporters write these for
// track_running_stats=False.
std::vector<int> batch_statistics(const SourceGraph& g);

}  // namespace amp
