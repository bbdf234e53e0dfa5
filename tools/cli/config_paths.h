// Checks relative paths in configuration files.
#pragma once

#include "tools/cli/options.h"

namespace amp::cli {

// Throws E_FILE_MISSING if a configuration file gives a relative path of an input file that does not exist in the
// current folder. If the file exists near the configuration file, or in the folder where the run of a run.json was
// started, the error names that place.
void require_files_of_config(const Options& opts);

}  // namespace amp::cli
