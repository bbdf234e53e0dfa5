// The text of --help, made from the flag table.
#pragma once

#include <optional>
#include <string>

#include "tools/cli/options.h"

namespace amp::cli {

// No verb: the overview, then train's flags. Groups with titles, defaults in brackets, at most 100 columns wide.
// all: other spellings and allowed values too.
std::string help_text(std::optional<Verb> verb, bool all);
std::string version_text();

}  // namespace amp::cli
