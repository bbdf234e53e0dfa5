// A spelled-out subgraph (tests/graph/core_text.h) beside what composites make of it.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"

namespace amp::test {

// The operators once composites were formed; compute: by source node.
std::string formed(const std::string& text, const std::vector<DType>& compute = {});

// Outputs and gradients of every parameter agree in fp64. constants: how far those of the spelling (fp32, rounded) are
// from the operator's.
void same_numbers(const std::string& text, double constants);

}  // namespace amp::test
