// The embedding tables that token ids index.
#pragma once

#include <cstdint>

#include "graph/source.h"

namespace amp {

// Returns the number of rows of the embedding table that an input's ids index, directly or through views (nodes that
// only change the shape), or 0 if there is none. If they index several tables, returns the smallest number. The table
// may be stored, transposed, reshaped or dequantized, as a head's weight that is the embedding too, or packed
// (GatherBlockQuantized).
int64_t token_table_rows(const SourceGraph& graph, int input);

}  // namespace amp
