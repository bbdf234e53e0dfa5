// Colors of messages on standard error. The command line decides once whether messages are colored
// (tools/cli/terminal.h). The library and the tests print without colors.
#pragma once

#include <cstdint>

namespace amp {

enum class Ink : uint8_t { error, warning, note, none };  // none: switches back to the terminal's default color

void set_colors(bool on);
// Returns the control sequence that switches to the color, or "" if colors are off. Async-signal-safe.
const char* ink(Ink which);

}  // namespace amp
