// Converts a model to 16-bit arithmetic. Every node that is to compute in 16 bits reads and writes 16 bits; all others
// stay float32. Cast nodes connect the two, one per value. Inputs and outputs of the model keep their types. A constant
// that only 16-bit nodes read is stored in 16 bits. A small constant that float32 nodes read too is stored twice, so
// that an epsilon does not become 0. Operators, or single inputs such as Resize's scales, stay float32 if their ONNX
// definition has no 16-bit type at the model's opset. Local functions are inlined first.
#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "importer/write/half_constants.h"

namespace amp {

struct HalfOptions {
  HalfType type;
  // Weights that must fit into the type; otherwise E_EXPORT_RANGE is thrown. For other constants see
  // importer/write/half_constants.h.
  std::set<std::string> weights;
  // Nodes of the main graph that compute in 16 bits, by their first output; absent: all nodes. If present, nodes of
  // branches and loop bodies stay float32.
  std::optional<std::set<std::string>> low;
  // Used without `low`: nodes of the main graph that stay float32, by their first output.
  std::set<std::string> wide;
};

// Converts the model in place. The proto must hold all payloads. A note reports changed constants. Throws E_EXPORT_FP16
// (Exit::unsupported) if an operator has no 16-bit definition (when every node is to be converted), or if types cannot
// be inferred.
void convert_to_half(onnx::ModelProto& model, const HalfOptions& options, std::vector<std::string>& notes);

}  // namespace amp
