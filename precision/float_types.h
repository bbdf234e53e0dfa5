// What the plan must know of values: their element types, where the file does not say, and whether they carry weights
// or floating data at all (masks, positions and shape arithmetic computed from integers do not).
#pragma once

#include <vector>

#include "graph/source.h"

namespace amp {

// By value index. From the file where known, else from the operators' ONNX type rules.
std::vector<DType> value_types(const SourceGraph& g);

// By value index: depends on a parameter or on a floating graph input.
std::vector<char> carries_data(const SourceGraph& g, const std::vector<DType>& types);

// Positions of the inputs whose elements the operator computes with; the others are shapes, indices, bounds and
// statistics. E.g. Resize: X alone, Where: the two branches.
bool is_data_input(const SourceNode& node, size_t position);

// The operator computes with all its data inputs alike and promotes them to the widest (Add, Concat, Where, ...);
// others take the type of input 0.
bool promotes(const SourceNode& node);

// Moves or selects elements, or combines them so that a huge one stays huge: what is beyond fp16's range at the input
// is so at the output (Add, Mul, Where, Expand, ...; not Softmax, Clip, Greater).
bool keeps_range(const SourceNode& node);

}  // namespace amp
