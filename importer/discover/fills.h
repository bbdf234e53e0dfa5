// Weights that a file makes by ConstantOfShape: models stripped of their trained values keep them so. Those that stand
// in a weight position of a matrix product, convolution, norm or recurrent layer become constants with a value, so that
// they can be trained; others stay nodes, to be folded where they are used. Fills above 64 MiB (1 GiB in all) are left
// alone, with a note.
#pragma once

#include "importer/read/build.h"

namespace amp {

void materialise_fills(Built& built);

}  // namespace amp
