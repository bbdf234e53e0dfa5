// Inputs that stand for several files: a line "=== NAME" begins each. What precedes the first such line is ignored.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace amp::fuzz {

inline std::vector<std::pair<std::string_view, std::string_view>> sections(std::string_view input) {
  constexpr std::string_view kBegin = "=== ";
  std::vector<std::pair<std::string_view, std::string_view>> out;
  const auto next = [&](size_t from) {
    for (size_t at = input.find(kBegin, from); at != input.npos; at = input.find(kBegin, at + 1)) {
      if (at == 0 || input[at - 1] == '\n') return at;
    }
    return input.npos;
  };
  for (size_t at = next(0); at != input.npos;) {
    const size_t line = input.find('\n', at);
    if (line == input.npos) break;
    const size_t end = next(line);
    out.emplace_back(input.substr(at + kBegin.size(), line - at - kBegin.size()),
                     input.substr(line + 1, end == input.npos ? end : end - line - 1));
    at = end;
  }
  return out;
}

}  // namespace amp::fuzz
