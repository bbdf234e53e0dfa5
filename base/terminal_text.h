// Escapes text that contains strings from untrusted files, so that a terminal can print it safely. printable() in
// base/text.h does the same for single names.
#pragma once

#include <string>
#include <string_view>

namespace amp {

// Escapes whole messages and tables: controls and invalid UTF-8 become \xNN. Line ends and tabs are kept, and
// nothing is truncated.
std::string printable_lines(std::string_view text);
// Escapes JSON: controls within strings become \uNNNN, which parsers read as the same strings. Requires valid UTF-8.
std::string printable_json(std::string_view text);

}  // namespace amp
