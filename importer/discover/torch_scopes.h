// Finds the modules of a TorchScript export in the paths of node names: "/block/fc/MatMul".
#pragma once

#include <map>
#include <string>

#include "graph/source.h"

namespace amp {

// Distinguishes products, convolutions and lookups of layers (nn.Linear, nn.Conv2d, nn.Embedding) from those that a
// larger module computes in its own forward(). The latter read a raw parameter or a buffer (a random projection, a
// basis); the file does not record which.
class TorchScopes {
 public:
  explicit TorchScopes(const SourceGraph& g);

  // True if the node's name has a module path and that module contains more than one layer's nodes.
  bool raw(const SourceNode& n) const;

 private:
  std::map<std::string, int> work_;  // per scope, including nested scopes: number of nodes other than biases and views
};

}  // namespace amp
