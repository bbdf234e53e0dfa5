// Formats of the messages on standard error (--log_format): text for people, or lines of JSON for programs. The
// format is set once per process. Without a choice, as in a program that uses the library, messages are text. An
// error is then followed by its JSON line unless standard error is a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"

namespace amp {

enum class LogFormat : uint8_t {
  automatic,  // text; an error is followed by its JSON line if standard error is not a terminal
  text,       // text only
  json,       // each message is one line of JSON
};

// Returns the format with that name (auto, text, json); nullopt for other names.
std::optional<LogFormat> log_format_named(std::string_view name);

// Environment variable that passes the choice to child processes, and to plugins, which contain a copy of this code.
inline constexpr const char* kLogFormatVariable = "ONNX_AMP_LOG_FORMAT";

// Sets the format and the variable. Call it before other threads run. The initial format is read from the variable.
void set_log_format(LogFormat format);
LogFormat log_format();  // async-signal-safe

// Return whether an error is written as text, and whether as a JSON line. Async-signal-safe.
bool errors_are_text();
bool errors_are_json();

// Returns a message as one line without newline, control characters escaped: "warning: TEXT" or "note: TEXT",
// colored if colors are on, or TEXT for lower levels. As JSON: {"id":"W_SKIPS","level":"warning","message":"200 of
// ..."}. The id is that at the start of the text ("W_SKIPS: "); without one it is DETAIL, INFO, NOTE or WARNING.
std::string message_line(Level level, const std::string& text);

// Prints the message as a line of standard error. It uses one write(), because other processes may use the same pipe.
void print_message(Level level, const std::string& text);

}  // namespace amp
