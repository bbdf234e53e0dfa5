#include "tools/cli/flag_text.h"

#include <optional>

#include "base/cat.h"
#include "tools/cli/flags.h"

namespace amp::cli {

// Returns whether a backquoted name is a flag. The name of a flag is one even if a verb has the same name (`train`).
// Another spelling of a flag is not one if it is the name of a verb.
static bool names_flag(std::string_view name) {
  const std::optional<Found> found = find_flag(name);
  return found && (found->flag->name == name || !find_verb(name));
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
  return out.append(text.substr(at));
}

Error with_flags(const Error& e) {
  Error out(e.exit(), e.id(), with_flags(e.fact()), with_flags(e.hint()));
  for (const std::string& place : e.where()) out.at(with_flags(place));
  return out;
}

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_of(" \t\"'\\$`&|;<>()*?[]#~!{}") == std::string::npos;
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace amp::cli
