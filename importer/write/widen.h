// Converts a model with 16-bit floating-point types to float32: weights, constants, Casts and declared types. Inputs
// and outputs of the model keep their types through Casts, as in importer/write/half.h. Local functions are inlined
// first. float64 is kept.
#pragma once

#include <onnx/onnx_pb.h>

namespace amp {

bool has_16_bit_floats(onnx::ModelProto& model);

// Converts the model in place. The proto must hold all payloads.
void convert_to_float(onnx::ModelProto& model);

// Returns a Cast of `from` to an ONNX element type. The node is named after its output `to`.
onnx::NodeProto cast_node(const std::string& from, const std::string& to, int type);

}  // namespace amp
