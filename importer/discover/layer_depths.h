// Computes the depth of each parameter for layer-wise learning rate decay (--layer_decay). The depth is the distance
// from the head, counted as in ELECTRA and in timm's param_groups_layer_decay.
//
// The head has depth 0, the last layer of a stack (importer/discover/layers.h) has depth 1, and the first of n layers
// has depth n. Parameters before the layers (embeddings, a stem) have depth n + 1. A parameter between layers belongs
// to the last layer before it, or to the first block of its stage ("stages.1.downsample"). The encoder's normalization
// after its last layer ("norm", "ln_f") belongs to the last layer. Tied parameters have the largest depth of their
// uses. If there are several stacks (towers, encoder and decoder), each is counted from its own end.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct LayerDepths {
  struct Layer {
    std::string name;  // such as "encoder.layer.3"
    int depth = 0;     // distance from the head
  };
  std::vector<Layer> layers;         // the layers of all stacks, each stack from first to last
  std::map<std::string, int> depth;  // key: the parameter's name in the file, or its alias
};

// Returns the layers and depths; empty if no parameter is named after a layer. scopes: per node, as in
// importer/read/build.h.
LayerDepths layer_depths(const SourceGraph& g, const std::vector<std::string>& scopes);

}  // namespace amp
