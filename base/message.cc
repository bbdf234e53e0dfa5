// Implements the formats of messages. The current format is stored in an atomic, because signal handlers read it.
#include "base/message.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/cat.h"
#include "base/colors.h"
#include "base/terminal_text.h"

namespace amp {

namespace {

constexpr std::array<const char*, 3> kFormats = {"auto", "text", "json"};  // indexed by LogFormat

LogFormat format_of_environment() {
  const char* const value = std::getenv(kLogFormatVariable);
  return log_format_named(value ? value : "").value_or(LogFormat::automatic);
}

std::atomic<LogFormat> message_format{format_of_environment()};
static_assert(std::atomic<LogFormat>::is_always_lock_free);

struct LevelNames {
  const char *id, *level;
  Ink ink;
};
LevelNames names_of(Level level) {
  switch (level) {
    case Level::detail:
      return {"DETAIL", "detail", Ink::none};
    case Level::info:
      return {"INFO", "info", Ink::none};
    case Level::note:
      return {"NOTE", "note", Ink::note};
    case Level::warning:
      break;
  }
  return {"WARNING", "warning", Ink::warning};
}

// Returns the id at the start of a text such as "W_NAME: ...", or "" if the text has none.
std::string_view leading_id(std::string_view text) {
  const size_t end = text.find(": ");
  if (!text.starts_with("W_") || end == std::string_view::npos) return {};
  const std::string_view id = text.substr(0, end);
  return id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string_view::npos ? id
                                                                                                 : std::string_view();
}

}  // namespace

std::optional<LogFormat> log_format_named(std::string_view name) {
  const auto at = std::find(kFormats.begin(), kFormats.end(), name);
  return at == kFormats.end() ? std::nullopt : std::optional(static_cast<LogFormat>(at - kFormats.begin()));
}

void set_log_format(LogFormat format) {
  message_format = format;
  ::setenv(kLogFormatVariable, kFormats[static_cast<size_t>(format)], 1);
}

LogFormat log_format() { return message_format; }

bool errors_are_text() { return message_format != LogFormat::json; }

bool errors_are_json() {
  const LogFormat format = message_format;
  return format == LogFormat::json || (format == LogFormat::automatic && ::isatty(STDERR_FILENO) == 0);
}

std::string message_line(Level level, const std::string& text) {
  const LevelNames names = names_of(level);
  if (log_format() != LogFormat::json) {
    const std::string begin =
        level < Level::note ? std::string() : cat(ink(names.ink), names.level, ":", ink(Ink::none), " ");
    return begin + printable_lines(text);
  }
  const std::string_view id = leading_id(text);
  const nlohmann::ordered_json line{
      {"id", id.empty() ? std::string_view(names.id) : id},
      {"level", names.level},
      {"message", id.empty() ? std::string_view(text) : std::string_view(text).substr(id.size() + 2)}};
  // The handler replaces invalid UTF-8, because names from files may contain it.
  return printable_json(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void print_message(Level level, const std::string& text) { std::cerr << cat(message_line(level, text), "\n"); }

}  // namespace amp
