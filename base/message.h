// Forms of the messages on standard error: text for people, or lines of JSON for programs (--log_format). The process
// decides once. A process that decides nothing, as one that uses the library, writes text, and after the text of an
// error its JSON line, unless standard error is a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"

namespace amp {

enum class LogFormat : uint8_t {
  automatic,  // text; after an error also its JSON line, if standard error is no terminal
  text,       // text only
  json,       // each message is one line of JSON
};

// Returns the form with a name of --log_format (auto, text, json); nullopt for other names.
std::optional<LogFormat> log_format_named(std::string_view name);

// The variable through which the choice reaches plugins, which have their own copy of this file, and child processes.
inline constexpr const char* kLogFormatVariable = "ONNX_AMP_LOG_FORMAT";

// Sets the form, and kLogFormatVariable. Call it before other threads run. The initial form is that of the variable.
void set_log_format(LogFormat format);
LogFormat log_format();  // async-signal-safe

// Return whether an error is written as text, and whether as a JSON line. Async-signal-safe.
bool errors_are_text();
bool errors_are_json();

// Returns "warning: TEXT" or "note: TEXT", in color where there are colors, or TEXT alone for lower levels; control
// characters are escaped. As JSON: {"id":"W_SKIPS","level":"warning","message":"200 of ..."}. The id is the one that
// the text begins with ("W_SKIPS: "), or DETAIL, INFO, NOTE or WARNING. No newline at the end.
std::string message_line(Level level, const std::string& text);

// Prints the message as a line of standard error, with one write: other processes may write to the same pipe.
void print_message(Level level, const std::string& text);

}  // namespace amp
