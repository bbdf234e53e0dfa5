// Converts Options to a RunSpec: a flag that has the name of a setting (run/settings/settings.h) sets that setting.
#pragma once

#include "run/spec/spec.h"
#include "tools/cli/options.h"

namespace amp {

RunSpec spec_of(const cli::Options& opts);

}  // namespace amp
