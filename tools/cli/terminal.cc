#include "tools/cli/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/colors.h"
#include "base/message.h"

namespace amp::cli {

bool draws(int file) {
  if (log_format() == LogFormat::json) return false;
  const char* const term = std::getenv("TERM");
  return ::isatty(file) == 1 && !(term && std::string_view(term) == "dumb");
}

bool has_colors() {
  const char* const none = std::getenv("NO_COLOR");
  return draws(STDERR_FILENO) && !(none && *none);
}

void apply_log_format(std::string_view name) {
  if (const std::optional<LogFormat> format = log_format_named(name)) set_log_format(*format);
  set_colors(has_colors());
}

void apply_log_format(int argc, const char* const* argv) {
  static constexpr std::string_view flag = "--log_format";
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--") break;
    std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(std::min(word.size(), flag.size())), '-',
                 '_');
    if (!word.starts_with("__log_format")) continue;
    if (word.size() == flag.size() && i + 1 < argc) apply_log_format(std::string_view(argv[i + 1]));
    if (word.size() > flag.size() && word[flag.size()] == '=')
      apply_log_format(std::string_view(word).substr(flag.size() + 1));
  }
  set_colors(has_colors());
}

}  // namespace amp::cli
