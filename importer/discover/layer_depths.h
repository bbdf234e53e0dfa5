// --layer_decay: how far below the head each parameter lies, as timm's param_groups_layer_decay and ELECTRA count it.
//
// The head is at 0, the last layer of a stack (importer/discover/layers.h) at 1, its first of n at n, what the layers stand on
// (embeddings, a stem) at n + 1. What lies between layers belongs to the last one below it, or to the first block of
// its own stage ("stages.1.downsample"); so does a normalisation of the encoder behind its last layer ("norm", "ln_f").
// Ties are one parameter, as low as its lowest use. Several stacks (towers, encoder and decoder) count each from its
// own end.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct LayerDepths {
  struct Layer {
    std::string name;  // "encoder.layer.3"
    int depth = 0;     // below the head
  };
  std::vector<Layer> layers;         // of each stack from its first to its last
  std::map<std::string, int> depth;  // of parameters, by name in the file and by alias
};

// scopes: per node, as in importer/read/build.h. Empty when no parameter is named after a layer.
LayerDepths layer_depths(const SourceGraph& g, const std::vector<std::string>& scopes);

}  // namespace amp
