// Console: prints messages on stderr as --quiet and --verbose request, and the progress of a run and its activities.
#pragma once

#include <mutex>

#include "run/host.h"
#include "tools/cli/options.h"
#include "tools/progress.h"

namespace amp {

class Console {
 public:
  explicit Console(const cli::Options& opts);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console();

  // The results of log() and host() refer to this Console, which has to outlive them.
  Log log() const;
  Host host() const;             // for training: with progress, stopped by signals
  void hide_activities() const;  // for a rank that prints nothing

 private:
  Level least_;
  mutable std::mutex mutex_;  // threads report activities
  mutable Progress progress_;
};

}  // namespace amp
