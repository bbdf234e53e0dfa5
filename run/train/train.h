// Training: from a prepared run to its folder with model.onnx, logs, checkpoints and run.json.
#pragma once

#include <optional>
#include <string>

#include "run/prepare/prepare.h"
#include "run/report/report.h"
#include "run/train/lr_range.h"

namespace amp {

struct TrainReport {
  TrainResult result;  // its last evaluation: of model.onnx
  RunFacts facts;
  std::string model;                    // the exported file; empty when it was stopped before
  std::string page;                     // report.html
  std::optional<LrRange> lr_range;      // of --lr_range_test: nothing was exported
  bool stopped = false, saved = false;  // by a signal or --max_minutes; a checkpoint holds all that was done
  int signal = 0;                       // 0: none, --max_minutes were over
  std::string signal_name;
};

// A run is trained once.
TrainReport train(PreparedRun& run);

}  // namespace amp
