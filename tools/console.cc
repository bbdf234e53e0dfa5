#include "tools/console.h"

#include <csignal>
#include <iostream>

#include "base/colors.h"
#include "base/terminal_text.h"
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

// Returns "warning: " or "note: ", in color where there are colors; "" for other levels.
static std::string prefix_of(Level level) {
  if (level < Level::note) return "";
  const bool warning = level == Level::warning;
  return cat(ink(warning ? Ink::warning : Ink::note), warning ? "warning:" : "note:", ink(Ink::none), " ");
}

Log Console::log() const {
  return Log([this](Level level, const std::string& message) {
    if (level < least_) return;
    const std::string text = printable_lines(cli::with_flags(message));
    const std::lock_guard lock(mutex_);
    if (progress_.shows_line()) {
      progress_.message(prefix_of(level) + text);
    } else {
      std::cerr << cat(prefix_of(level), text, "\n");  // one write, see error_line.cc
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
