// The embedding tables that token ids index.
#pragma once

#include <cstdint>

#include "graph/source.h"

namespace amp {

// Returns the number of rows of the embedding table that an input's ids index, directly or through views (nodes that
// only change the shape), or 0 if there is none. If they index several tables, returns the smallest number. The table
// may be a stored tensor, a packed one (GatherBlockQuantized), or the result of transposing, reshaping or
// dequantizing the weight of the model's head.
int64_t token_table_rows(const SourceGraph& graph, int input);

}  // namespace amp
