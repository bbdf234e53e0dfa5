// Operator sets that a model or a function imports.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace amp {

using Opsets = std::map<std::string, int64_t>;

// Returns the domain with the name of ai.onnx that the program uses: "".
inline std::string standard(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

// Returns the version of each imported domain. A domain that is imported more than once (skl2onnx writes such files)
// has the version of its last entry, as in onnxruntime.
template <class Imports>
Opsets opsets_of(const Imports& imports) {
  Opsets out;
  for (const auto& o : imports) out[standard(o.domain())] = o.version();
  return out;
}

}  // namespace amp
