// How far results are apart, in multiples of what a test allows. One run on a GPU must tell a fault (1e4) from a margin
// that is too narrow for another compiler's rounding (1.5).
#pragma once

#include <string>

namespace amp::test {

// Keeps the largest of each name. With ONNX_AMP_DEVIATIONS set, the process prints them when it ends, a line each:
// "deviation 0.31 NAME".
void note_deviation(const std::string& name, double of_allowed);

}  // namespace amp::test
