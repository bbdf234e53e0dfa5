// Makes the text of --help from the flag table.
#pragma once

#include <optional>
#include <string>

#include "tools/cli/options.h"

namespace amp::cli {

// Returns the help of a verb or, without one, the overview and train's flags. Lines have at most 100 columns. all:
// includes other spellings and allowed values.
std::string help_text(std::optional<Verb> verb, bool all);
std::string version_text();

}  // namespace amp::cli
