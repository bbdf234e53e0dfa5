// Weights that a file creates by ConstantOfShape, as models stripped of their trained values do. A fill in a weight
// position of a matrix product, convolution, norm or recurrent layer becomes a constant, so that it can be trained.
// Other fills remain nodes and are folded where they are used. A fill above 64 MiB (1 GiB in total) remains a node,
// with a note.
#pragma once

#include "importer/read/build.h"

namespace amp {

void materialize_constant_filled(Built& built);

}  // namespace amp
