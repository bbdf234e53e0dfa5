#include "base/json_nesting.h"

#include <algorithm>

namespace amp {

int json_levels(std::string_view text) {
  int now = 0, most = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      most = std::max(most, ++now);
    } else if (c == ']' || c == '}') {
      --now;
    }
  }
  return most;
}

}  // namespace amp
