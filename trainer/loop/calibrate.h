// Calibration: a precision plan chosen from numbers. An fp32 run over a few batches measures every node's values and
// gradients; what 16 bits cannot hold becomes fp32 (precision/calibration.h); then plans are tried against the fp32 run
// and the cheapest one whose loss and gradients stay close enough is found by bisection.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "precision/calibration.h"
#include "trainer/compile/session.h"

namespace amp {

struct CalibrateOptions {
  std::vector<std::string> bases = {"O2", "O1"};  // presets or op-list files to start from
  DType low = DType::f16;
  // largest relative error of the loss, and of all gradients in the 2-norm; 0: 1e-2 for fp16, 8e-2 for bf16
  double rtol = 0;
  SessionOptions session;                       // compute and low are set here
  std::function<void(const std::string&)> say;  // one line a plan tried
};

struct Measured {
  std::vector<NodeRanges> nodes;   // by source node
  std::vector<ValueRange> inputs;  // by source value
  double loss = 0;                 // mean over the batches
  HostTensor gradients;            // of that mean, the whole arena
};

struct CalibratedPlan {
  PrecisionPlan plan;    // its list holds the rules found and the loss scale
  double error = 0;      // of loss or gradients against fp32, whichever is larger
  double low_share = 0;  // of all elements computed forward and backward, those in 16 bit
  bool within = false;   // error <= rtol; false: not even the plan without 16-bit nodes was (never seen)
};

Measured measure_ranges(const SourceGraph& g, const SessionOptions& session, const Losses& loss,
                        const std::vector<Tensors>& batches);

// Usage error E_CALIBRATE without batches, or when the fp32 run itself is not finite (exit 8).
CalibratedPlan calibrate(const SourceGraph& g, const Losses& loss, const std::vector<Tensors>& batches,
                         const CalibrateOptions& options);

}  // namespace amp
