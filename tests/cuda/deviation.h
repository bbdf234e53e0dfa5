// Deviations of results, in multiples of the test's tolerance. They distinguish, after one run on a GPU, a fault (1e4)
// from a tolerance that is too small for another compiler's rounding (1.5).
#pragma once

#include <string>

namespace amp::test {

// Records the largest deviation of each name. If ONNX_AMP_DEVIATIONS is set, the process prints them when it ends, one
// line each: "deviation 0.31 NAME".
void note_deviation(const std::string& name, double of_allowed);

}  // namespace amp::test
