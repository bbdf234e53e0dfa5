// Prose of generated Markdown pages.
#pragma once

#include <string>

#include "base/text.h"

namespace amp::test {

// Wraps words at 100 columns, as tests/documents requires of pages.
inline std::string wrapped(const std::string& text, const std::string& bullet = {}) {
  std::string out = bullet;
  size_t column = bullet.size();
  for (const std::string& word : split(text, ' ')) {
    const bool first = column == bullet.size();
    if (!first && column + 1 + word.size() > 100) {
      out += "\n" + std::string(bullet.size(), ' ');
      column = bullet.size();
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out + "\n";
}

}  // namespace amp::test
