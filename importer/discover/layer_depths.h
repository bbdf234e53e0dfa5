// The distance of each parameter from the head, for layer-wise learning rate decay (--layer_decay), counted as in
// ELECTRA and in timm's param_groups_layer_decay.
//
// The head has depth 0, the last layer of a stack (importer/discover/layers.h) depth 1, the first of n layers depth n,
// and what precedes the layers (embeddings, a stem) n + 1. A parameter between layers belongs to the last layer before
// it, or to the first block of its stage ("stages.1.downsample"). The encoder's normalization after its last layer
// ("norm", "ln_f") belongs to the last layer. Tied parameters have the depth of the deepest use. Several stacks
// (towers, encoder and decoder) are each counted from their own end.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct LayerDepths {
  struct Layer {
    std::string name;  // "encoder.layer.3"
    int depth = 0;     // distance from the head
  };
  std::vector<Layer> layers;         // of each stack, first to last
  std::map<std::string, int> depth;  // by the parameter's name in the file and by its alias
};

// scopes: per node, as in importer/read/build.h. The result is empty if no parameter is named after a layer.
LayerDepths layer_depths(const SourceGraph& g, const std::vector<std::string>& scopes);

}  // namespace amp
