#include "run/data/delimited.h"

namespace amp {

std::string delimited(const std::vector<std::string>& cells, char delimiter) {
  std::string out;
  for (const std::string& c : cells) {
    if (&c != &cells.front()) out += delimiter;
    const bool quoted = c.find_first_of(std::string("\"\r\n") + delimiter) != std::string::npos;
    if (!quoted) {
      out += c;
      continue;
    }
    out += '"';
    for (const char x : c) out.append(x == '"' ? 2 : 1, x);
    out += '"';
  }
  if (out.empty()) out = "\"\"";  // readers skip empty lines
  return out;
}

}  // namespace amp
