// A file that is embedded in the binary; cmake/embed.cmake generates the functions that return it.
#pragma once

#include <string_view>

namespace amp {

struct EmbeddedFile {
  std::string_view name, text;
};

}  // namespace amp
