// NHWC regions. Tensor cores need NHWC convolutions, so in an NCHW graph each convolution would transpose its
// operands and its result. This pass converts connected nodes that can compute in either layout (convolutions and
// their gradients, batch normalization, pools, elementwise operators, Concat ...) to (N, H, W, C). Then only values
// at a region's border are transposed, once each: the model's inputs, weights, operands of Reshape or MatMul. A
// region is converted if that copies fewer bytes than its convolutions would copy separately.
//
// Results differ only by the order of sums: a convolution sums over taps, then channels, and sums over positions are
// divided into other partial sums. Sums within a window, elementwise results and the bits of Dropout do not change.
#pragma once

#include <optional>
#include <vector>

#include "graph/builder.h"

namespace amp {

// Returns the graph with NHWC regions. The graph must be complete (casts absorbed, backward included if it is
// trained). fp32: true if the device computes fp32 convolutions in TF32, which makes fp32 faster in NHWC, too.
Graph form_nhwc_regions(const Graph& g, bool fp32, const Evaluator& evaluator);

// The NHWC form of a node: which inputs and outputs are NHWC, and the attributes. Inputs of lower rank are extended
// to rank 4.
struct ChannelsLastForm {
  std::vector<bool> in, out;
  Attrs attrs;
  bool gains = false;  // a convolution that would otherwise transpose its operands itself
  bool same = false;   // a Transpose of the model, which becomes the identity
};
// Returns the NHWC form of a node, or nullopt if it has none.
std::optional<ChannelsLastForm> channels_last_form(const Graph& g, const Node& n, bool fp32);

}  // namespace amp
