// `check_data`: reads text files, images and tables once, and reports the problems that training would have with them.
#pragma once

#include "base/log.h"
#include "run/check/data_report.h"

namespace amp {

struct RunSpec;

// Reads the data and returns the report. Rows that a reader refuses are reported as problems. Throws only for wrong
// settings and for files that cannot be opened.
DataReport check_data(const RunSpec& spec, const Log& log = {});

}  // namespace amp
