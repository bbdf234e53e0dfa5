// Where messages for people go. Library code says what it has to say to a Log and how much it matters; the program
// that runs it decides what is shown, and where.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace amp {

enum class Level {
  detail,   // what was decided and why, in full
  info,     // what is being done
  note,     // may be other than expected: worth a line even to those who want few
  warning,  // probably not what was wanted
};

class Log {
 public:
  using Sink = std::function<void(Level, const std::string& text)>;  // text: a line, without its end

  Log() = default;  // says nothing
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
