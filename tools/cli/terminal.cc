#include "tools/cli/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace amp::cli {

bool draws(int file) {
  const char* const term = std::getenv("TERM");
  return ::isatty(file) == 1 && !(term && std::string_view(term) == "dumb");
}

bool has_colors() {
  const char* const none = std::getenv("NO_COLOR");
  return draws(STDERR_FILENO) && !(none && *none);
}

}  // namespace amp::cli
