// `check_data` for tables of features: reads every cell once, and reports which columns feed which input of the model.
#pragma once

#include "base/log.h"
#include "run/check/data_report.h"

namespace amp {

struct RunSpec;

DataReport check_features(const RunSpec& spec, const Log& log);

}  // namespace amp
