// A file that travels inside the binary: cmake/embed.cmake writes functions that give these.
#pragma once

#include <string_view>

namespace amp {

struct EmbeddedFile {
  std::string_view name, text;
};

}  // namespace amp
