// From flags to what the library takes: a flag that bears a setting's name (run/settings/settings.h) is that setting's value.
#pragma once

#include "run/spec/spec.h"
#include "tools/cli/options.h"

namespace amp {

RunSpec spec_of(const cli::Options& opts);

}  // namespace amp
