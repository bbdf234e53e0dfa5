// The runs of a sweep and their command lines.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fs.h"
#include "run/sweep/results.h"
#include "tools/cli/options.h"

namespace amp {

struct SweepPlan {
  std::vector<SweepRun> runs;
  std::vector<std::vector<std::string>>
      words;           // indexed by run: the words of a command line that trains it, without settings of its
                       // folder
  std::string folder;  // folder of the sweep
};

// Reads the search space, and checks the command line of every run before any run is started. Throws E_SWEEP, and the
// errors of the command lines, with the run's name.
SweepPlan plan_sweep(const cli::Options& opts);

// Creates and locks the sweep's folder. With `resume`, the states of runs are read from its record; with
// `overwrite`, the runs in it are removed. Throws E_OUTPUT_EXISTS, E_OUTPUT_FOREIGN, E_SWEEP_CHANGED, E_LOCKED.
std::unique_ptr<DirLock> open_sweep_folder(SweepPlan& plan, const cli::Options& opts);

void write_sweep_record(const SweepPlan& plan);  // writes sweep.json

}  // namespace amp
