// The positions that a tensor takes in the nodes which use it, seen through views (Identity, Transpose, Reshape, Cast,
// Squeeze, Unsqueeze, Flatten, Expand, Slice, Split, Concat, Tile, Pad, Quantize/DequantizeLinear, a quantiser spelled
// out (importer/quantized/fake_quant.h)) and into the graphs of If, Loop and Scan.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

std::vector<char> live_nodes(const SourceGraph& g);  // per node: an output depends on it

struct Use {
  int node = -1;  // of the graph that was asked; one that holds graphs when the use is inside of it
  int input = -1;
  bool through_concat = false;
  std::string views;   // "Transpose, Cast"
  std::string around;  // the operator of the node whose graph it is in
  // Where the use itself is: the same node, or one inside.
  const SourceGraph* graph = nullptr;
  int site = -1, site_input = -1;

  const SourceNode& at() const { return graph->nodes[static_cast<size_t>(site)]; }
};
std::vector<Use> uses_behind_views(const SourceGraph& g, const std::vector<std::vector<int>>& consumers,
                                   const std::vector<char>& live, int value);

bool is_view(const SourceNode& n, int input);  // the node passes this input on, rearranged

// "weight", "bias", "table", ... ; null when the position holds no weight. MatMul 0/1, Gemm 0/1/2, Conv 0/1/2,
// ConvTranspose 1/2, DeformConv 1/3, Layer/RMS/Instance/Group/BatchNormalization 1/2 (LayerNormalization 0), PRelu 1,
// Gather* 0, Add/Sub/Mul/Sum, LSTM/GRU/RNN 1/2/3 (LSTM 7), Einsum, and where com.microsoft's fused operators hold the
// same weights.
const char* weight_role(const SourceNode& n, int input);

// No gradient can pass from the node's outputs to this input: shapes, indices, conditions, statistics.
bool blocks_gradient(const SourceNode& n, int input);

}  // namespace amp
