// Messages for users. Library code sends them with a level to a Log; the calling program selects levels to show.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace amp {

enum class Level {
  detail,   // decisions and their reasons
  info,     // progress
  note,     // possibly unexpected; shown even if few messages are wanted
  warning,  // probably not intended
};

class Log {
 public:
  using Sink = std::function<void(Level, const std::string& text)>;  // text: one line, without newline

  Log() = default;  // discards messages
  explicit Log(Sink sink) : sink_(std::move(sink)) {}

  void say(Level level, const std::string& text) const {
    if (sink_) sink_(level, text);
  }
  void detail(const std::string& text) const { say(Level::detail, text); }
  void info(const std::string& text) const { say(Level::info, text); }
  void note(const std::string& text) const { say(Level::note, text); }
  void warning(const std::string& text) const { say(Level::warning, text); }

 private:
  Sink sink_;
};

}  // namespace amp
