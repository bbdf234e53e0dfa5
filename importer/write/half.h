// A model with 16-bit arithmetic: every node that is to compute in 16 bits reads and writes 16 bits, everything else
// stays float32, and Cast nodes stand on the borders, one for each value. Inputs and outputs of the model keep their
// types. A constant that only 16-bit nodes read is stored in 16 bits; a small one that others
// read, too, is stored twice, so that an epsilon is no Cast of 0. Operators (or single inputs of them) whose ONNX
// definition knows no 16-bit type at the model's opset, such as Range or Resize's scales, keep float32. Local functions
// are inlined first.
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
  std::set<std::string>
      weights;  // tensors that must fit (E_EXPORT_RANGE otherwise); others: importer/write/half_constants.h
  // Nodes of the main graph that compute in 16 bits, by their first output; absent: every node. Nodes of branches and
  // bodies are not among them and then stay float32.
  std::optional<std::set<std::string>> low;
  // Without `low`: nodes of the main graph that stay float32, by their first output.
  std::set<std::string> wide;
};

// All payloads must be in the proto. Changed constants are noted. Exit::unsupported E_EXPORT_FP16: operators without a
// definition (when every node is to be converted), or types that cannot be inferred.
void convert_to_half(onnx::ModelProto& model, const HalfOptions& options, std::vector<std::string>& notes);

}  // namespace amp
