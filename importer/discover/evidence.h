// The evidence that importer/discover/discover.cc weighs. docs/weights.md has the table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/discover/verdict.h"

namespace amp {

// What a tensor's name says about where it came from. Each kind weighs position and values differently: a name that is
// known to be a parameter's leaves little to them, none leaves all.
enum class Naming : uint8_t {
  module,   // "encoder.layer.0.query.weight": a parameter or a buffer of a module
  folded,   // "onnx::MatMul_12": torch.onnx computed it from a parameter or a buffer
  made_up,  // "val_7", "Constant_3": in a file whose weights have names of their own
  none,     // the file's names say nothing
};

// The kind by the name alone: module, folded, made_up, or none for a plain word.
Naming naming_of(const std::string& name);

// What the last component of a module path usually names: above 0 for a parameter, below 0 for a buffer.
std::optional<Evidence> usual_name(const std::string& name);
// "blocks.0.scales.3" -> "scales", in lower case: a number is an element of a list.
std::string last_component(const std::string& name);

// How a tensor is used and what else the file holds, as far as the look of its values depends on it.
struct ValueContext {
  bool operand = false;         // it is only added, multiplied or the like
  bool in_product = false;      // a product, a convolution, a recurrent cell or a lookup reads it
  bool starts_regular = false;  // biases, norms: fresh ones are zeros, ones, or both
  bool product_bias = false;    // among those: the bias of a product or a convolution
  bool learned = false;         // the file holds unstructured weights: structure is then remarkable
  bool biases_learned = false;  // some bias in the file is neither zeros nor ones
};

// What the values look like: masks, positions, grids, filter banks.
std::vector<Evidence> value_evidence(const HostTensor& data, Naming naming, const ValueContext& context);

}  // namespace amp
