// Makes the text of --help from the flag table.
#pragma once

#include <optional>
#include <string>

#include "tools/cli/options.h"

namespace amp::cli {

// Returns the help of a verb or, without a verb, the list of verbs with examples. Lines have at most 100 columns.
// all: true shows every flag with its whole description, other spellings and allowed values (without a verb, those of
// train). Otherwise a verb with many flags shows the common ones, each with the first sentence of its description.
std::string help_text(std::optional<Verb> verb, bool all);
std::string version_text();

}  // namespace amp::cli
