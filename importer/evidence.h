// The evidence that importer/discover.cc weighs. docs/weights.md has the table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/verdict.h"

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

// What the last parts of a module path usually name: above 0 for a parameter, below 0 for a buffer.
std::optional<Evidence> usual_name(const std::string& name);

// What the values look like: masks, positions, grids. operand: it is only added, multiplied or the like.
std::vector<Evidence> value_evidence(const HostTensor& data, Naming naming, bool operand);

}  // namespace amp
