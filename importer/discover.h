// Which constants are weights. The rule (measured on 3,085 float tensors of 88 exported models: no error there) goes by
// the position a tensor takes in its consumer, not by its name or its values:
//
// a floating tensor is a parameter when it is live (a graph output depends on it) and, through views (Identity,
// Transpose, Reshape, Cast, Squeeze, Unsqueeze, Flatten, Expand, Slice, Split, Concat, Tile, Pad,
// Quantize/DequantizeLinear, a quantiser spelled out (importer/fake_quant.h)), reaches a weight position: MatMul 0/1,
// Gemm 0/1/2,
// Conv 0/1/2, ConvTranspose 1/2, DeformConv 1/3, Layer/RMS/Instance/Group/BatchNormalization 1/2 (LayerNormalization
// 0), PRelu 1,
// Gather* 0, Add/Sub/Mul/Sum, LSTM/GRU/RNN 1/2/3 (LSTM 7), Einsum, and where com.microsoft's fused operators hold the
// same weights. Not so
//  1. one element, unless Gemm/Conv input 2, an Add after MatMul/Gemm/Conv, a MatMul operand, a PRelu slope, or a part
//     of a Concat;
//  2. rotary frequencies: a vector that reaches Cos or Sin with positions only;
//  3. scale 1 and bias 0 of an InstanceNormalization: the inner step of a decomposed GroupNorm;
//  4. arithmetic on a graph input: its standardisation;
//  5. masks: two values {0,1} or {0, <= -1e4}, last dims equal, used in Add/Sub/Mul;
//  6. scales and zero points of quantisers.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// Turns constants into parameters and gives every constant and parameter its reason.
void discover_parameters(SourceGraph& g);

std::vector<char> live_nodes(const SourceGraph& g);  // per node: an output depends on it

// A weight's first use behind views, for aliases and reasons.
struct Use {
  int node = -1;
  int input = -1;
  bool through_concat = false;
  std::string views;  // "Transpose, Cast"
};
std::vector<Use> uses_behind_views(const SourceGraph& g, const std::vector<std::vector<int>>& consumers,
                                   const std::vector<char>& live, int value);

// "weight", "bias", "table", ... ; null when the position holds no weight.
const char* weight_role(const SourceNode& n, int input);

}  // namespace amp
