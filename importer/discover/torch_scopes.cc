#include "importer/discover/torch_scopes.h"

#include "base/text.h"

namespace amp {
namespace {

// Sets `scope` to the module path in the node's name: "/block/fc" for "/block/fc/MatMul", "" for a node of the model
// itself. Returns false if the name has no path.
bool path_of(const SourceNode& n, std::string& scope) {
  if (n.name.empty() || n.name[0] != '/') return false;
  scope = n.name.substr(0, n.name.rfind('/'));
  return true;
}

// True for operators that an exported layer contains in addition to its product: the bias, and nodes that move
// elements.
bool beside_a_product(const SourceNode& n) {
  return one_of(n.op, {"Add", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Cast", "Identity", "Pad", "Slice",
                       "Shape", "Gather", "Concat", "Constant", "QuantizeLinear", "DequantizeLinear"});
}

}  // namespace

TorchScopes::TorchScopes(const SourceGraph& g) {
  for (const SourceNode& n : g.nodes) {
    std::string scope;
    if (!path_of(n, scope) || beside_a_product(n)) continue;
    for (++work_[scope]; !scope.empty(); ++work_[scope]) scope = scope.substr(0, scope.rfind('/'));
  }
}

bool TorchScopes::raw(const SourceNode& n) const {
  std::string scope;
  if (!path_of(n, scope)) return false;
  const auto it = work_.find(scope);
  return it != work_.end() && it->second > 1;
}

}  // namespace amp
