// --check_data for tables of features: every cell is read once, and what goes to which input of the model is told.
#pragma once

#include "run/check/check_data.h"

namespace amp {

DataReport check_features(const RunSpec& spec, const Log& log);

}  // namespace amp
