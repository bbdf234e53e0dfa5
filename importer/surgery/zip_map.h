// ZipMap: skl2onnx ends a classifier with a node that converts a tensor of probabilities to a list of dictionaries,
// {class: probability}. The tensor replaces the list among the graph's outputs, because a list has no gradient. The
// file keeps the node.
#pragma once

#include "importer/read/build.h"

namespace amp {

// Adds a note for each output that is replaced.
void read_before_zip_maps(Built& built);

}  // namespace amp
