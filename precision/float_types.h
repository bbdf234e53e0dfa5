// Properties of values on which the plan depends: the element type, and whether the value depends on weights
// or floating-point data. Masks, positions and shape arithmetic that use only integers do not depend on these.
#pragma once

#include <vector>

#include "graph/source.h"

namespace amp {

// Returns the type of each value: the type that the file declares, or else the type by the ONNX rules of the operators.
std::vector<DType> value_types(const SourceGraph& g);

// Returns 1 for each value that depends on a parameter or on a floating-point graph input, else 0.
std::vector<char> carries_data(const SourceGraph& g, const std::vector<DType>& types);

// True for inputs with whose elements the operator computes; other inputs are shapes, indices, bounds and statistics.
// For example, the only data input of Resize is X, and those of Where are the two branches.
bool is_data_input(const SourceNode& node, size_t position);

// True if the operator treats all data inputs alike and promotes them to the widest type (Add, Concat, Where, ...).
// Other operators take the type of input 0.
bool promotes(const SourceNode& node);

// True if the output may be beyond fp16's range when an input is. This holds for operators that move, select or
// combine elements, such as Add, Mul, Where or Expand. It does not hold for Softmax, Clip or Greater.
bool keeps_range(const SourceNode& node);

}  // namespace amp
