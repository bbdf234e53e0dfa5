// Constants and weights that 16 bits cannot hold, and the nodes that must therefore compute in fp32.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

enum class UnitSafety : uint8_t {
  none,
  epsilon,  // part of a composite whose kernel keeps its epsilon fp32
  all,      // part of an attention that guards against fully masked rows: a mask of -inf is as good as -3.4e38
};

// Node -> why. Four cases:
//   * a constant beyond 65504 in magnitude, infinities included (mask values: -3.4e38, -inf), and every node that a
//     value built from it reaches up to the first that bounds it (Add of a mask, then Softmax); bf16 rounds -FLT_MAX
//     to -inf too, so the limit is the same for both types. Bounds of Clip, Max, Min and Pad are harmless.
//   * a weight with an element beyond 65504, when low is f16; reported in warnings, never clamped;
//   * a quantiser spelled out (graph/quantiser.h), and what its integers reach before they are scaled: products of
//     integers are neither exact nor within range in 16 bits;
//   * a one-element constant that low changes by more than 1 % (an epsilon of 1e-12 is 0 in fp16), or a weight most of
//     whose elements it loses; and what carries an epsilon to the division, root or logarithm that needs it
//     (epsilon.h).
// in_unit, by node, makes exceptions.
std::map<int, std::string> unsafe_nodes(const SourceGraph& g, const std::vector<DType>& types,
                                        const std::vector<UnitSafety>& in_unit, DType low,
                                        std::vector<std::string>& warnings);

// By node: whether a file that is to be 16 bit throughout has to keep it fp32 (epsilon.h). Norms that are spelled out
// are left alone: engines compute them as one operator.
std::vector<char> epsilon_in_fp32(const SourceGraph& g, DType low);

}  // namespace amp
