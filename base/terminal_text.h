// Text with strings from untrusted files in a form for terminals, as printable() (base/text.h) is for names.
#pragma once

#include <string>
#include <string_view>

namespace amp {

// For whole messages and tables: controls and invalid UTF-8 become \xNN. Keeps line ends and tabs, and cuts nothing.
std::string printable_lines(std::string_view text);
// For JSON: controls within strings become \uNNNN, so parsers read the same strings. Requires valid UTF-8.
std::string printable_json(std::string_view text);

}  // namespace amp
