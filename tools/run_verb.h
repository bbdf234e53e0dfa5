// From parsed flags to the verb that they ask for.
#pragma once

#include "tools/cli/options.h"

namespace amp {

int run_verb(const cli::Options& opts);  // the process's exit code; throws an Error

// The same, with what a translated command line came to told first; with --verbose all its settings.
int run_command(const cli::Command& command);

}  // namespace amp
