// base/limits.h applied to graphs.
#pragma once

#include <map>
#include <string>

#include "base/limits.h"
#include "graph/source.h"

namespace amp {

// The memory that a model's tensors may take at one time with inputs of these shapes: what is set, else 10,000 times
// what weights and inputs have, 768 MiB at least.
int64_t activation_limit(const SourceGraph&, const std::map<std::string, Dims>& input_dims);

// E_FOLD_BUDGET unless so much may be computed from a model's constants; what: "Range of 1e9 elements".
void require_constant(const std::string& what, double bytes);

[[noreturn]] void refuse_nodes(const char* when);  // E_NODES
[[noreturn]] void refuse_bytes(const std::string& what,
                               int64_t limit);  // E_TENSOR_BYTES; what: "Pad makes f32[..], 8 bytes"

}  // namespace amp
