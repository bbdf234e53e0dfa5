// Constants that keep a value away from 0 (the epsilon of x / max(norm, 1e-12), of log(p + 1e-9), of Clip's min) and
// that a 16-bit type cannot hold: which nodes carry them to the division, root or logarithm that needs them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// x in the 16-bit type, as a double.
double rounded(double v, DType low);
// Whether `low` changes x by more than 1 %.
bool is_lost(double x, DType low);

// Node -> why, for every node between the constant and the first node that bounds the result again, these included.
// skip, by node: composites whose kernels keep their epsilon in fp32.
std::map<int, std::string> epsilon_nodes(const SourceGraph& g, const std::vector<char>& skip, DType low);

}  // namespace amp
