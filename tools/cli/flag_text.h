// Writes settings in messages as flags of the command line. The library writes "`batch_size`" (base/setting_name.h); a
// user of the program reads "--batch_size".
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace amp::cli {

// Replaces each flag's name in backquotes by the flag. Other text in backquotes, such as a command, is unchanged.
std::string with_flags(std::string_view text);
Error with_flags(const Error& e);

std::string shell_word(const std::string& word);  // quoted for the shell if necessary

}  // namespace amp::cli
