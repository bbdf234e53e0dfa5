// Relative paths in configuration files.
#pragma once

#include "tools/cli/options.h"

namespace amp::cli {

// Throws E_FILE_MISSING if a configuration file gives a relative path of an input file that does not exist in the
// current folder. The error names this folder, and the places near the configuration file, or in the folder where the
// run of a run.json was started, at which the file exists.
void require_files_of_config(const Options& opts);

}  // namespace amp::cli
