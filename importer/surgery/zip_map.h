// Handles ZipMap, with which skl2onnx ends a classifier: the node converts a tensor of probabilities to a list of
// dictionaries, {class: probability}. A list has no gradient, so the tensor replaces it among the graph's outputs. The
// file keeps the node.
#pragma once

#include "importer/read/build.h"

namespace amp {

// Adds a note for each output that is replaced.
void read_before_zip_maps(Built& built);

}  // namespace amp
