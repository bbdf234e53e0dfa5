// Which parameters belong to which numbered layer of an encoder: --freeze_layers, and importer/discover/layer_depths.h.
//
// A layer is read off a parameter's name, its alias or the scope of the node that uses it: the first component that
// ends in layer(s), block(s), stage(s), group(s), features or is h, with a number behind it: "encoder.layer.3",
// "model.layers.3", "h.3", "blocks.3", "layer3.0", "encoder_layer_3_fc", "features.3". What stands before the number is
// the stack; layers are counted in a stack from its lowest number. A stage may hold blocks: "stages.2.blocks.1",
// "layers.0.blocks.1", "layer3.0". A model with an encoder and a decoder freezes in the encoder.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/discover/positions.h"

namespace amp {

struct LayerName {
  std::string stack;  // "bert.encoder.layer"; empty: no layer
  int64_t number = -1;
  int64_t block = -1;  // of a stage; -1: none is named
};
LayerName layer_of(const std::string& name);
LayerName layer_of_parameter(const SourceGraph& g, int value, const std::vector<Use>& uses,
                             const std::vector<std::string>& scopes);

// Freezes the first `count` layers and every parameter outside of the layers that they depend on (embeddings, their
// norm, a stem); count 0: the latter alone. Ties freeze as one. `trainable` globs are exceptions. scopes: per node, as
// in importer/read/build.h. Returns lines for people. Exit::usage E_FREEZE_LAYERS when no layer is found, with the names
// that were met, or when there are fewer layers.
std::vector<std::string> freeze_layers(SourceGraph& g, int64_t count, const std::vector<std::string>& trainable,
                                       const std::vector<std::string>& scopes);

}  // namespace amp
