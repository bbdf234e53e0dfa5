#include "tools/cli/flag_text.h"

#include <algorithm>

#include "base/cat.h"
#include "tools/cli/flags.h"

namespace amp::cli {

static bool names_flag(std::string_view name) {
  for (const Flag& f : flags()) {
    if (f.name == name) return true;
  }
  return !find_verb(name) && find_flag(name).has_value();  // another spelling
}

std::string with_flags(std::string_view text) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t open = text.find('`', at);
    const size_t close = open == std::string_view::npos ? open : text.find('`', open + 1);
    if (close == std::string_view::npos) break;
    const std::string_view name = text.substr(open + 1, close - open - 1);
    out += text.substr(at, open - at);
    out += names_flag(name) ? cat("--", name) : cat("`", name, "`");
    at = close + 1;
  }
  return out + std::string(text.substr(std::min(at, text.size())));
}

Error with_flags(const Error& e) {
  Error out(e.exit(), e.id(), with_flags(e.fact()), with_flags(e.hint()));
  for (const std::string& place : e.where()) out.at(with_flags(place));
  return out;
}

}  // namespace amp::cli
