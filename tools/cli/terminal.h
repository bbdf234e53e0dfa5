// Decides what the program may draw on standard error: colors (https://no-color.org), and lines that are rewritten in
// place.
#pragma once

#include <string_view>

namespace amp::cli {

// Returns whether the file is a terminal that understands control sequences. TERM=dumb names one that does not. Lines
// of JSON (--log_format) are not drawn on.
bool draws(int file);
// As draws(), for standard error, unless NO_COLOR is set and not empty.
bool has_colors();

// Applies a value of --log_format to the process: the form of its messages, and whether they have colors.
void apply_log_format(std::string_view name);
// Applies the last --log_format of a command line that is not parsed yet, so that its errors have this form, too.
void apply_log_format(int argc, const char* const* argv);

}  // namespace amp::cli
