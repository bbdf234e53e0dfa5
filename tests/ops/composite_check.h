// Compares an unfused subgraph (tests/graph/core_text.h) with the fused operator that replaces it.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"

namespace amp::test {

// Returns the operators after fusion. compute: precision by source node.
std::string formed(const std::string& text, const std::vector<DType>& compute = {});

// Checks that outputs and gradients of every parameter agree in fp64. constants: deviation of the unfused graph's
// constants, which are rounded to fp32, from the operator's.
void same_numbers(const std::string& text, double constants);

}  // namespace amp::test
