// The key/value caches of a decoder: which graph inputs they are, and which values continue them. Generation uses them
// to compute one token per step (run/evaluate/cached_decoder.h).
#pragma once

#include <vector>

#include "graph/source.h"

namespace amp {

struct DecoderCaches {
  struct Part {
    int past = -1;          // the input: the keys or values of earlier positions
    int present = -1;       // the value that continues the past
    bool whole = false;     // present contains the earlier positions, too; false: only the new ones
    int axis = 2;           // the dimension of positions
    bool at_front = false;  // the used positions of a longer past are the first ones; false: the last ones
  };
  std::vector<Part> parts;  // empty: the graph has no caches, or cannot be computed with them
  std::vector<int> lasts;   // integer inputs: the index of the last position of each row (seqlens_k)
  std::vector<int> totals;  // integer inputs: the length of past and new positions
};

// Turns the inputs that empty_pasts() (importer/surgery/pasts.h) made constants into graph inputs again. Afterwards the
// graph computes whole sequences if each past has 0 positions. Each GroupQueryAttention returns only the new positions
// as its present (attribute kNewPositions), and a past is not a ring buffer.
void feed_caches(SourceGraph& graph, const DecoderCaches& caches);

}  // namespace amp
