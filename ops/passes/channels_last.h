// Layout chosen for whole chains. On tensor cores a convolution wants its channels last, so that each would move its
// operands there and its result back. Here connected nodes that compute in either layout (convolutions and their
// gradients, batch normalisation, pools, elementwise operators, Concat ...) become nodes on (N, H, W, C), and what
// moves are the values at the border of such a region, once each: the model's inputs, weights, what a Reshape or MatMul
// reads. A region changes its layout where that moves fewer bytes than its convolutions would one by one.
//
// Results differ by the order of sums alone: those of a convolution run over taps, then channels; those over places
// have other parts. Sums within a window, everything elementwise and the bits of Dropout are the same.
#pragma once

#include <optional>
#include <vector>

#include "graph/builder.h"

namespace amp {

// Of a finished graph. fp32: convolutions in fp32 gain by it too (TF32), not only those in 16 bits.
Graph chain_channels_last(const Graph& g, bool fp32, const Evaluator& evaluator);

// A node in the other layout: which of its inputs and outputs have their channels last there, and the attributes that
// say so. Inputs of lower rank are seen as of rank 4 first.
struct ChannelsLastForm {
  std::vector<bool> in, out;
  Attrs attrs;
  bool gains = false;  // by itself: what it would move is counted
  bool same = false;   // a Transpose of the model's own: its result is its input as it lies
};
// Nothing where a node has none.
std::optional<ChannelsLastForm> channels_last_form(const Graph& g, const Node& n, bool fp32);

}  // namespace amp
