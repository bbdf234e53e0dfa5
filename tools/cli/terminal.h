// Decides what the program may write to standard error: colors (https://no-color.org), and lines that are rewritten
// in place.
#pragma once

#include <string_view>

namespace amp::cli {

// Returns whether the file is a terminal that interprets control sequences, which TERM=dumb excludes. False if
// messages are JSON lines (--log_format).
bool draws(int file);
// Returns draws() for standard error, but false if NO_COLOR is set and not empty.
bool has_colors();

// Applies a value of --log_format to the process: the format of its messages, and whether they are colored.
void apply_log_format(std::string_view name);
// Applies the last --log_format of a command line before it is parsed, so that parsing errors have this format, too.
void apply_log_format(int argc, const char* const* argv);

}  // namespace amp::cli
