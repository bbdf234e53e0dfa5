#include "precision/presets.h"

#include <algorithm>

#include "base/text.h"

namespace amp {

std::vector<std::string> preset_names() {
  std::vector<std::string> out;
  for (const EmbeddedFile& f : embedded_op_lists()) {
    if (f.name.ends_with(".json")) out.emplace_back(f.name.substr(0, f.name.size() - 5));
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string_view preset_text(std::string_view name) {
  for (const EmbeddedFile& f : embedded_op_lists()) {
    if (f.name.ends_with(".json") && f.name.substr(0, f.name.size() - 5) == name) return f.text;
  }
  return {};
}

std::span<const std::string> known_operators() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const EmbeddedFile& f : embedded_op_lists()) {
      if (f.name != "operators.txt") continue;
      for (const std::string& line : split(f.text, '\n')) {
        if (!line.empty() && line[0] != '#') out.push_back(line);
      }
    }
    std::sort(out.begin(), out.end());
    return out;
  }();
  return names;
}

}  // namespace amp
