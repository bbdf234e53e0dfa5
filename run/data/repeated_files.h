// Files of data that are given more than once.
#pragma once

#include "base/log.h"

namespace amp {

struct RunSpec;

// Logs a note for each file or folder that `train` or `val` names twice, also by a pattern or through a link, that is
// in both, or that is inside a folder of the other one. Their rows count twice, or are trained on and evaluated.
void note_repeated_files(const RunSpec& spec, const Log& log);

}  // namespace amp
