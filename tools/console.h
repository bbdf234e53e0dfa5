// What a person sees: messages as --quiet and --verbose ask for, and the progress of a run, on stderr.
#pragma once

#include "run/host.h"
#include "tools/cli/options.h"
#include "tools/progress.h"

namespace amp {

class Console {
 public:
  explicit Console(const cli::Options& opts);

  // They refer to this console.
  Log log() const;
  Host host() const;  // training's: with progress, stopped by signals

 private:
  Level least_;
  mutable Progress progress_;
};

}  // namespace amp
