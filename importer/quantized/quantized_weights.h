// Training weights that a file holds as integers (QDQ format): each integer tensor behind a DequantizeLinear gets a
// floating master, a parameter, which a QuantizeLinear with the file's own scale and zero point quantises in every
// forward pass; gradients pass straight through where nothing is clipped (quantisation-aware training, Jacob et al.,
// "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018). Before the
// first step the model computes what the file computes; export writes the integers that the last step used.
#pragma once

#include <map>

#include "importer/read/build.h"

namespace amp {

// Adds the masters as constants: importer/discover/discover.h decides which are weights. Left as they are, and counted in the
// notes: tensors of types that QuantizeLinear does not make (int32 biases), those of 4 bits, and those of several
// DequantizeLinear nodes with different scales.
void add_float_masters(Built& built);

// Replaces every master in values (SourceValue -> its fp32 value) by the integer tensor of the file that it stands for.
void quantize_masters(const SourceGraph& graph, std::map<int, HostTensor>& values);

}  // namespace amp
