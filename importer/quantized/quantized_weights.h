// Trains weights that a file stores as integers (QDQ format). For each integer tensor read by a DequantizeLinear, a
// floating-point copy (the master) becomes the parameter. A QuantizeLinear with the file's scale and zero point
// quantizes the master in every forward pass; gradients pass straight through where nothing is clipped. This is
// quantization-aware training (Jacob et al., "Quantization and Training of Neural Networks for Efficient
// Integer-Arithmetic-Only Inference", 2018). Before the first training step the model computes the same as the file.
// Export writes the integers that the last training step used.
#pragma once

#include <map>

#include "importer/read/build.h"

namespace amp {

// Adds the masters as constants; importer/discover/discover.h decides which of them are weights. Three kinds of tensors
// are not changed, and a note reports their number: tensors of types that QuantizeLinear does not produce (int32
// biases), 4-bit tensors, and tensors with several DequantizeLinear nodes of different scales.
void add_float_masters(Built& built);

// Quantizes the masters for export: removes each master's fp32 tensor from `values` (keyed by SourceValue) and adds the
// integers under the SourceValue of the file's integer tensor.
void quantize_masters(const SourceGraph& graph, std::map<int, HostTensor>& values);

}  // namespace amp
