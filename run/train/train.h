// Trains a prepared run and writes its folder: model.onnx, logs, checkpoints and run.json.
#pragma once

#include <optional>
#include <string>

#include "run/prepare/lr_range.h"
#include "run/prepare/prepare.h"
#include "run/report/report.h"

namespace amp {

struct TrainReport {
  TrainResult result;  // its last evaluation is that of model.onnx
  RunFacts facts;
  std::string model;                // path of the exported file; empty if training stopped early
  std::string raw_rows;             // path of the file that takes raw rows of a table; empty: not written
  std::string page;                 // path of report.html
  std::optional<LrRange> lr_range;  // set by --lr_range_test, which exports nothing
  // stopped: by a signal, Host::stop or --max_minutes; saved: a checkpoint holds all completed steps
  bool stopped = false, saved = false;
  int signal = 0;  // 0 if Host::stop or --max_minutes ended the run
  std::string signal_name;
};

// Trains `run`. A prepared run can be trained only once.
TrainReport train(PreparedRun& run);

}  // namespace amp
