// Finds nodes that need an epsilon which a 16-bit type cannot represent. An epsilon is a constant that keeps a value
// away from 0, as in x / max(norm, 1e-12) or log(p + 1e-9), or the `min` of a Clip.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// Returns v rounded to the 16-bit type, as a double.
double rounded(double v, DType low);
// True if rounding to `low` changes x by more than 1 %.
bool is_lost(double x, DType low);

// Returns a reason for every node on the path from such an epsilon to the division, root or logarithm that needs it,
// also for that operation. skip: per node, 1 for decomposed operators whose fused kernels keep their epsilon in fp32.
std::map<int, std::string> epsilon_nodes(const SourceGraph& g, const std::vector<char>& skip, DType low);

}  // namespace amp
