// From parsed flags to the verb that they ask for.
#pragma once

#include "tools/cli/options.h"

namespace amp {

int run_verb(const cli::Options& opts);  // the process's exit code; throws an Error

}  // namespace amp
