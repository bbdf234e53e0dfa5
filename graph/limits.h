// Applies base/limits.h to graphs.
#pragma once

#include <map>
#include <string>

#include "base/limits.h"
#include "graph/source.h"

namespace amp {

// The memory limit of a model's tensors for inputs of these shapes: the configured limit, else 10,000 times the bytes
// of weights and inputs, at least 768 MiB.
int64_t activation_limit(const SourceGraph&, const std::map<std::string, Dims>& input_dims);

// Fails with E_FOLD_BUDGET if a constant of so many bytes may not be folded. what: "Range of 1e9 elements".
void require_constant(const std::string& what, double bytes);

[[noreturn]] void refuse_nodes(const char* when);  // E_NODES
[[noreturn]] void refuse_bytes(const std::string& what,
                               int64_t limit);  // E_TENSOR_BYTES; what: "Pad makes f32[..], 8 bytes"

}  // namespace amp
