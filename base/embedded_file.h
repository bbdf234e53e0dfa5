// The type of a file that is embedded in the binary. cmake/embed.cmake generates the functions that return such files.
#pragma once

#include <string_view>

namespace amp {

struct EmbeddedFile {
  std::string_view name, text;
};

}  // namespace amp
