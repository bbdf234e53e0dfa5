// Applies the limits of base/limits.h to graphs.
#pragma once

#include <map>
#include <string>

#include "base/limits.h"
#include "graph/source.h"

namespace amp {

// Returns the limit in bytes for each tensor of a model with inputs of these shapes, and for the sum of its constants:
// the configured limit, or else 10,000 times the bytes of weights and inputs, but at least 768 MiB.
int64_t activation_limit(const SourceGraph&, const std::map<std::string, Dims>& input_dims);

// Throws E_FOLD_BUDGET (Exit::unsupported) if a folded constant of that many bytes would exceed the limit. what:
// its computation, such as "Range of 1e9 elements".
void require_constant(const std::string& what, double bytes);

// Throws E_NODES (Exit::unsupported): too many nodes after the step `when`, such as "loops are unrolled".
[[noreturn]] void refuse_nodes(const char* when);
// Throws E_TENSOR_BYTES (Exit::unsupported). what: the tensor and its size, such as "Pad makes f32[..], 8 bytes".
[[noreturn]] void refuse_bytes(const std::string& what,
                               int64_t limit);  // the limit that the message states

}  // namespace amp
