// Colors of messages on standard error. The program decides once whether there are any (tools/cli/terminal.h); the
// library and the tests have none.
#pragma once

#include <cstdint>

namespace amp {

enum class Ink : uint8_t { error, warning, note, none };  // none: ends a color

void set_colors(bool on);
// Returns the control sequence, or "" if there are no colors. Async-signal-safe.
const char* ink(Ink which);

}  // namespace amp
