// Inputs that a decoder's file has for inference, besides the caches that become empty (importer/surgery/pasts.h).
#pragma once

#include <string>
#include <vector>

#include "importer/read/build.h"
#include "importer/read/import.h"

namespace amp {

std::string plain_name(std::string name);  // removes the ":0" that TensorFlow appends to names
// Returns true if `name` matches a name in PastOptions::names, such as "past_key_values.%d.key".
bool has_configured_name(const std::string& name, const PastOptions& options);

// Computes each input cache_position (length), the indices of the positions to compute, in the graph: 0, 1, ... up to
// the length of the token ids. Does nothing if the data feed the caches, or if the graph fixes the number of positions.
// Must run before parameters are discovered. Adds notes. Returns whether there was such an input: the graph then cannot
// be computed after a past. The file, which export writes, is not changed.
bool count_positions(Built& built, const PastOptions& options);

// Returns whether an input, or a view of it, is the condition of an If. consumers: of the graph's values.
bool chooses_graph(const SourceGraph& graph, const std::vector<std::vector<int>>& consumers, int input);

// Refuses inputs for inference that cannot be fed in training; the hint says how to export another file. Throws
// E_OP_CASE (Exit::unsupported) for a cache of integers, whose keys and values training would have to round as well,
// and for use_cache_branch, by which an If chooses between a graph with and one without a cache. Does nothing if the
// data feed the caches. graph: as import_model() returns it.
void refuse_inference_inputs(const SourceGraph& graph, const PastOptions& options);

}  // namespace amp
