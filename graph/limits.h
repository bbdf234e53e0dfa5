// Applies base/limits.h to graphs.
#pragma once

#include <map>
#include <string>

#include "base/limits.h"
#include "graph/source.h"

namespace amp {

// Returns the limit in bytes for the tensors of a model with inputs of these shapes: the configured limit, else 10,000
// times the bytes of weights and inputs, but at least 768 MiB.
int64_t activation_limit(const SourceGraph&, const std::map<std::string, Dims>& input_dims);

// Throws E_FOLD_BUDGET (Exit::unsupported) if a constant of that many bytes may not be folded. `what` describes its
// computation: "Range of 1e9 elements".
void require_constant(const std::string& what, double bytes);

// Throws E_NODES (Exit::unsupported): the graph has too many nodes once `when` ("loops are unrolled") is done.
[[noreturn]] void refuse_nodes(const char* when);
// Throws E_TENSOR_BYTES (Exit::unsupported). `what` names the tensor: "Pad makes f32[..], 8 bytes".
[[noreturn]] void refuse_bytes(const std::string& what,
                               int64_t limit);  // E_TENSOR_BYTES; what: "Pad makes f32[..], 8 bytes"

}  // namespace amp
