// Properties of values that the plan depends on: their element types, and whether they depend on weights or
// floating-point data. Masks, positions and shape arithmetic from integers do not.
#pragma once

#include <vector>

#include "graph/source.h"

namespace amp {

// Returns the type of each value: the file's if it is known, else the type by the operators' ONNX type rules.
std::vector<DType> value_types(const SourceGraph& g);

// Returns 1 for each value that depends on a parameter or on a floating-point graph input, else 0.
std::vector<char> carries_data(const SourceGraph& g, const std::vector<DType>& types);

// True for inputs whose elements the operator computes with; other inputs are shapes, indices, bounds and statistics.
// The data inputs of Resize are only X, those of Where the two branches.
bool is_data_input(const SourceNode& node, size_t position);

// True if the operator treats all data inputs alike and promotes them to the widest type (Add, Concat, Where, ...).
// Other operators take the type of input 0.
bool promotes(const SourceNode& node);

// True if values beyond fp16's range at the input may be beyond it at the output. This holds for operators that move,
// select or combine elements: Add, Mul, Where, Expand, ...; not Softmax, Clip, Greater.
bool keeps_range(const SourceNode& node);

}  // namespace amp
