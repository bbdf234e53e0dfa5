#include "tools/console.h"

#include <csignal>
#include <iostream>

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
    : least_(least_level(opts)), progress_(stderr, opts.integer("logging_steps")) {}

Log Console::log() const {
  return Log([this](Level level, const std::string& message) {
    if (level < least_) return;
    const std::string text = printable_lines(cli::with_flags(message));
    const char* const prefix = level == Level::warning ? "warning: " : level == Level::note ? "note: " : "";
    if (progress_.shows_bar()) {
      progress_.message(prefix + text);
    } else {
      std::cerr << cat(prefix, text, "\n");  // one write, see error_line.cc
    }
  });
}

Host Console::host() const {
  Host h;
  h.log = log();
  if (least_ < Level::note) {
    h.progress = [this](const ProgressState& s) { s.over ? progress_.done() : progress_.update(s); };
  }
  h.stop_signals = {kStopSignals.begin(), kStopSignals.end()};
  return h;
}

}  // namespace amp
