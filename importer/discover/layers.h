// Assigns parameters to the numbered layers of an encoder, for --freeze_layers and importer/discover/layer_depths.h.
//
// The layer is found in the parameter's name, its alias or the scope of a node that uses it. It is the first component
// that is h or ends in layer(s), block(s), stage(s), group(s) or features, followed by a number: "encoder.layer.3",
// "model.layers.3", "h.3", "blocks.3", "layer3.0", "encoder_layer_3_fc", "features.3". The part before the number names
// the stack; layers of a stack are counted from its lowest number. A stage may contain blocks: "stages.2.blocks.1",
// "layers.0.blocks.1", "layer3.0". In a model with encoder and decoder, the encoder's layers are frozen.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/discover/positions.h"

namespace amp {

struct LayerName {
  std::string stack;  // such as "bert.encoder.layer"; empty if the parameter is in no layer
  int64_t number = -1;
  int64_t block = -1;  // number of the block inside its stage; -1 if the name has none
};
LayerName layer_of(const std::string& name);
LayerName layer_of_parameter(const SourceGraph& g, int value, const std::vector<Use>& uses,
                             const std::vector<std::string>& scopes);

// Freezes the first `count` layers and the parameters outside of layers that these layers depend on (embeddings, their
// norm, a stem). With count 0 only the parameters before the first layer are frozen. Tied parameters freeze together.
// Parameters that match a glob of `trainable` stay trainable. scopes: per node, as in importer/read/build.h. Returns
// messages for the user. Throws E_FREEZE_LAYERS (Exit::usage) if no layer is found (the message lists some names) or if
// there are fewer than `count`.
std::vector<std::string> freeze_layers(SourceGraph& g, int64_t count, const std::vector<std::string>& trainable,
                                       const std::vector<std::string>& scopes);

}  // namespace amp
