// Turns weights that a file creates by ConstantOfShape into constants, so that they can be trained. Models that were
// stripped of their trained values create weights in this way. A fill is the output of such a node. Only a fill that a
// matrix product, convolution, norm or recurrent layer reads as a weight is turned into a constant. Other fills remain
// nodes and are folded where they are used. A fill above 64 MiB (1 GiB in total) remains a node, with a note.
#pragma once

#include "importer/read/build.h"

namespace amp {

void materialize_constant_filled(Built& built);

}  // namespace amp
