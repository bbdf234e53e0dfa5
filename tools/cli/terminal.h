// Decides what the program may draw on standard error: colors (https://no-color.org), and lines that are rewritten in
// place.
#pragma once

namespace amp::cli {

// Returns whether the file is a terminal that understands control sequences. TERM=dumb names one that does not.
bool draws(int file);
// As draws(), for standard error, unless NO_COLOR is set and not empty.
bool has_colors();

}  // namespace amp::cli
