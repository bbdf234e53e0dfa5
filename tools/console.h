// Console: prints messages on stderr as --quiet and --verbose request, and the progress of a run.
#pragma once

#include "run/host.h"
#include "tools/cli/options.h"
#include "tools/progress.h"

namespace amp {

class Console {
 public:
  explicit Console(const cli::Options& opts);

  // The results of log() and host() refer to this Console, which has to outlive them.
  Log log() const;
  Host host() const;  // for training: with progress, stopped by signals

 private:
  Level least_;
  mutable Progress progress_;
};

}  // namespace amp
