#include "tools/console.h"

#include <csignal>

#include "base/message.h"
#include "run/train/stop.h"
#include "tools/cli/flag_text.h"

namespace amp {

static Level least_level(const cli::Options& opts) {
  const bool talks = cli::has(cli::flag_named("quiet").verbs, opts.verb);
  if (talks && opts.flag("quiet")) return Level::note;
  return talks && opts.flag("verbose") ? Level::detail : Level::info;
}

Console::Console(const cli::Options& opts)
    : least_(least_level(opts)), progress_(stderr, opts.integer("logging_steps")) {
  if (least_ >= Level::note || !progress_.draws()) return;
  set_activity_display([this](const ActivityState* state) {
    const std::lock_guard lock(mutex_);
    progress_.activity(state);
  });
}

Console::~Console() { hide_activities(); }

void Console::hide_activities() const { set_activity_display({}); }

Log Console::log() const {
  return Log([this](Level level, const std::string& message) {
    if (level < least_) return;
    const std::string text = cli::with_flags(message);
    const std::lock_guard lock(mutex_);
    if (progress_.shows_line()) {
      progress_.message(message_line(level, text));
    } else {
      print_message(level, text);
    }
  });
}

Host Console::host() const {
  Host h;
  h.log = log();
  if (least_ < Level::note) {
    h.progress = [this](const ProgressState& s) {
      const std::lock_guard lock(mutex_);
      s.over ? progress_.done() : progress_.update(s);
    };
  }
  h.stop_signals = {kStopSignals.begin(), kStopSignals.end()};
  return h;
}

}  // namespace amp
