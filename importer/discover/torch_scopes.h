// The module that a node of a TorchScript export belongs to, which the path in its name gives: "/block/fc/MatMul".
#pragma once

#include <map>
#include <string>

#include "graph/source.h"

namespace amp {

// Distinguishes the products, convolutions and lookups of layers (nn.Linear, nn.Conv2d, nn.Embedding) from those that a
// larger module computes in its own forward. The tensor that such a node reads is a raw parameter or a buffer: a random
// projection, a basis. The file does not say which.
class TorchScopes {
 public:
  explicit TorchScopes(const SourceGraph& g);

  // The node's name has a module path, and the nodes of that module are more than one layer.
  bool raw(const SourceNode& n) const;

 private:
  std::map<std::string, int> work_;  // per scope, nested ones included: nodes other than biases and views
};

}  // namespace amp
