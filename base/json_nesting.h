// Nesting depth of JSON text. Copying, dump() and recursive readers of nlohmann::json use stack per level, so the depth
// of an untrusted file must be limited first.
#pragma once

#include <string_view>

namespace amp {

constexpr int kMostJsonLevels = 100;

// Maximum nesting of arrays and objects. The text need not be valid JSON; comments are not recognized.
int json_levels(std::string_view text);

}  // namespace amp
