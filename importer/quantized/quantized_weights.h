// Trains weights that a file stores as integers (QDQ format). Each integer tensor read by a DequantizeLinear gets a
// floating-point master, which is the parameter. A QuantizeLinear with the file's scale and zero point quantizes it in
// every forward pass; gradients pass straight through where nothing is clipped. This is quantization-aware training
// (Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018).
// Before the first step the model computes the same as the file. Export writes the integers that the last step used.
#pragma once

#include <map>

#include "importer/read/build.h"

namespace amp {

// Adds the masters as constants; importer/discover/discover.h decides which of them are weights. Three kinds of tensors
// are not changed, and a note reports their number: tensors of types that QuantizeLinear does not produce (int32
// biases), 4-bit tensors, and tensors with several DequantizeLinear nodes of different scales.
void add_float_masters(Built& built);

// Replaces every master's fp32 value in `values` (keyed by SourceValue) by the integer tensor of the file.
void quantize_masters(const SourceGraph& graph, std::map<int, HostTensor>& values);

}  // namespace amp
