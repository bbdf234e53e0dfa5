// Scans the text once and counts nesting levels and keys. It does not check that the text is valid JSON; the parser
// does.
#include "base/json_nesting.h"

#include <algorithm>
#include <vector>

#include "base/cat.h"

namespace amp {

namespace {

struct JsonShape {
  int levels = 0;
  int64_t keys = 0;  // largest number of keys of one object
};

JsonShape shape_of(std::string_view text) {
  JsonShape shape;
  std::vector<int64_t> keys;  // number of keys of each open array and object; 0 for arrays
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      keys.push_back(0);
      shape.levels = std::max(shape.levels, static_cast<int>(keys.size()));
    } else if ((c == ']' || c == '}') && !keys.empty()) {
      keys.pop_back();
    } else if (c == ':' && !keys.empty()) {
      shape.keys = std::max(shape.keys, ++keys.back());
    }
  }
  return shape;
}

}  // namespace

int json_levels(std::string_view text) { return shape_of(text).levels; }

std::string json_excess(std::string_view text, bool ordered) {
  const JsonShape shape = shape_of(text);
  if (shape.levels > kMostJsonLevels) return cat("nests deeper than ", kMostJsonLevels);
  if (ordered && shape.keys > kMostJsonKeys) return cat("has an object of more than ", kMostJsonKeys, " keys");
  return {};
}

}  // namespace amp
