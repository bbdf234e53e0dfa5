// Evidence from names and values, for importer/discover/discover.cc. docs/weights.md lists the weights.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/discover/verdict.h"

namespace amp {

// The origin of a tensor according to its name. It determines how much position and values count: little for a name
// that is known to belong to a parameter, most for `none`.
enum class Naming : uint8_t {
  module,   // "encoder.layer.0.query.weight": a parameter or a buffer of a module
  folded,   // "onnx::MatMul_12": torch.onnx computed it from a parameter or a buffer
  made_up,  // "val_7", "Constant_3": generated, in a file whose weights have real names
  none,     // the file's names carry no information
};

// Classifies the name without context: module, folded, made_up, or none for a plain word.
Naming naming_of(const std::string& name);

// Returns evidence from the last component of a module path: weight above 0 for a parameter's name, below 0 for a
// buffer's.
std::optional<Evidence> usual_name(const std::string& name);
// Returns the last component, lower-cased: "scales" for "blocks.0.scales.3" (3 is a list index).
std::string last_component(const std::string& name);

// Facts about a tensor's use and about the rest of the file that the interpretation of its values depends on.
struct ValueContext {
  bool operand = false;         // only read by Add, Sub, Mul or Sum, or where no weight is expected
  bool in_product = false;      // a product, convolution, recurrent cell or lookup reads it
  bool starts_regular = false;  // it is a bias or a norm's weight, initialized to zeros or ones
  bool product_bias = false;    // it is the bias of a product or a convolution
  bool learned = false;         // other weights of the file are unstructured, so structure is significant
  bool biases_learned = false;  // some bias in the file is neither zeros nor ones
};

// Returns evidence from the values: masks, positions, grids, filter banks.
std::vector<Evidence> value_evidence(const HostTensor& data, Naming naming, const ValueContext& context);

}  // namespace amp
