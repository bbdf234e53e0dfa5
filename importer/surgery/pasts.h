// Inputs that a decoder needs only for inference with a key/value cache. Training computes whole sequences, so the
// cache is empty: it has 0 positions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "importer/read/build.h"
#include "importer/read/import.h"
#include "importer/surgery/decoder_caches.h"

namespace amp {

// Replaces these inputs by constants and removes them from graph.inputs; the file, which export writes, is not changed:
// * caches of keys and values. A floating-point input is one if it is the past of an attention operator, or if a Concat
//   puts it in front of a tensor along an open dimension and the result is a graph output. The constant has 0 positions
//   in that dimension; a first dimension that is open keeps its symbol, and bind() (graph/bind.h) gives it its size.
// * lengths that attention does not read in whole sequences (seqlens_k and total_sequence_length of causal
//   GroupQueryAttention).
// * numbers with a fixed value in whole sequences: the length of the past (0), the number of logits to keep (0: all),
//   use_cache_branch (false). These are recognized by the name and one integer or boolean element.
// Removes the caches that the graph returns from graph.outputs. Adds notes that say what was fed.
// usable: false if the graph cannot be computed after a past (count_positions() in inference_inputs.h).
// Returns the names of the outputs that were removed, and the caches; these have no parts if the graph cannot be
// computed with them.
std::pair<std::vector<std::string>, DecoderCaches> empty_pasts(Built& built, const PastOptions& options, bool usable);

}  // namespace amp
