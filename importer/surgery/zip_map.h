// ZipMap: skl2onnx ends a classifier in a list of dictionaries, {class: probability}, made of a
// tensor of probabilities. The tensor takes its place among the graph's outputs, as a list has no
// gradient; the file keeps the node.
#pragma once

#include "importer/read/build.h"

namespace amp {

// Notes each output whose tensor is read instead.
void read_before_zip_maps(Built& built);

}  // namespace amp
