// Finds the nodes that use a tensor, and the input by which each reads it. The search follows the tensor through
// Identity, Transpose, Reshape, Cast, Squeeze, Unsqueeze, Flatten, Expand, Slice, Split, Concat, Tile, Pad,
// QuantizeLinear, DequantizeLinear and an unfused quantizer (importer/quantized/fake_quant.h). It enters the graphs of
// If, Loop and Scan.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

std::vector<char> live_nodes(const SourceGraph& g);  // returns for each node 1 if an output depends on it

struct Use {
  int node = -1;  // index in the queried graph; the enclosing node if the use is in a nested graph
  int input = -1;
  bool through_concat = false;
  std::string views;   // the views before the node, as "Transpose, Cast"
  std::string around;  // operator of the node that holds the nested graph; empty if there is none
  // The node that computes with the tensor, as an index (`site`) into graph->nodes: the same node, or a node of a
  // nested graph. site_input: which of its inputs reads the tensor.
  const SourceGraph* graph = nullptr;
  int site = -1, site_input = -1;

  const SourceNode& at() const { return graph->nodes[static_cast<size_t>(site)]; }
};
std::vector<Use> uses_through_views(const SourceGraph& g, const std::vector<std::vector<int>>& consumers,
                                    const std::vector<char>& live, int value);

bool is_view(const SourceNode& n, int input);  // true if the node passes this input on, possibly rearranged

// Returns the role of a weight that the node reads as this input ("weight", "bias", "table", ...), or null if a weight
// is not expected there. Inputs by operator: MatMul 0/1, Gemm 0/1/2, Conv 0/1/2, ConvTranspose 1/2, DeformConv 1/3,
// Layer/RMS/Instance/Group/BatchNormalization 1/2 (LayerNormalization 0), PRelu 1, Gather* 0, Add/Sub/Mul/Sum,
// LSTM/GRU/RNN 1/2/3 (LSTM 7), Einsum, and the corresponding inputs of com.microsoft's fused operators.
const char* weight_role(const SourceNode& n, int input);

bool quantizer_input(const SourceNode& n, int input);  // true for a scale or zero point of quantized values
bool rotary_table(const SourceNode& n, int input);     // true for cosines or sines of rotary positions

// True if no gradient flows from the node's outputs to this input: shapes, indices, conditions, statistics.
bool blocks_gradient(const SourceNode& n, int input);

}  // namespace amp
