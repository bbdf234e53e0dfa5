// Console: prints messages on stderr, filtered by --quiet and --verbose, and the progress of a run and its activities.
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

  // The objects that log() and host() return refer to this Console, which must outlive them.
  Log log() const;
  Host host() const;             // for training: shows progress, and signals stop the run
  void hide_activities() const;  // called in a rank that prints nothing

 private:
  Level least_;
  mutable std::mutex mutex_;  // needed because several threads may report activities
  mutable Progress progress_;
};

}  // namespace amp
