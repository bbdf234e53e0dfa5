// Finds constants and weights that 16 bits cannot represent, and the nodes that must therefore compute in fp32.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

enum class UnitSafety : uint8_t {
  none,
  epsilon,  // part of a decomposed operator whose fused kernel keeps its epsilon in fp32
  all,      // part of an attention that handles fully masked rows, where masks of -inf and -3.4e38 work alike
};

// Returns the nodes that must compute in fp32, each with its reason. There are four cases:
//   * A constant beyond 65504 in magnitude, including infinities (mask values: -3.4e38, -inf), and every node that is
//     reached by values derived from it, up to the first node with bounded results (for a mask: the Softmax after its
//     Add). The limit is the same for bf16, which rounds -FLT_MAX to -inf too. Bounds of Clip, Max, Min and Pad are
//     harmless.
//   * A weight with an element beyond 65504, if low is f16. It is reported in warnings, not clamped.
//   * An unfused quantizer (graph/quantizer.h), and the nodes that its integers reach before they are scaled: products
//     of integers are neither exact nor within range in 16 bits.
//   * A one-element constant that low changes by more than 1 % (an epsilon of 1e-12 is 0 in fp16), or a weight most of
//     whose elements become 0; and the nodes between an epsilon and the operation that needs it (epsilon.h).
// in_unit: per node, exceptions to these cases. types: per value (value_types()).
std::map<int, std::string> unsafe_nodes(const SourceGraph& g, const std::vector<DType>& types,
                                        const std::vector<UnitSafety>& in_unit, DType low,
                                        std::vector<std::string>& warnings);

// Returns 1 for each node that must stay fp32 in a file that is otherwise 16-bit throughout (epsilon.h), else 0.
// Decomposed norms are left out, because inference engines fuse them.
std::vector<char> epsilon_in_fp32(const SourceGraph& g, DType low);

}  // namespace amp
