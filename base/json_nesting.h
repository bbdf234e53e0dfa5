// How deep a text of JSON nests. nlohmann's copies, dump() and readers of parts within parts recurse: whoever wrote a
// file must not choose how much of the stack they take.
#pragma once

#include <string_view>

namespace amp {

constexpr int kMostJsonLevels = 100;

// Arrays and objects within one another, whether or not the text is valid JSON without comments.
int json_levels(std::string_view text);

}  // namespace amp
