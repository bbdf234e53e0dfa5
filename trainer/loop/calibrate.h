// Calibration: selects a precision plan by measurement. An fp32 run over a few batches records the ranges of every
// node's values and gradients. Nodes whose values exceed the range of the 16-bit type become fp32
// (precision/calibration.h). Then candidate plans are compared with the fp32 run. Bisection finds the plan with the
// most 16-bit nodes whose loss and gradients are close enough.
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
  // Largest relative error of the loss and of all gradients in the 2-norm; 0: 1e-2 for fp16, 8e-2 for bf16.
  double rtol = 0;
  SessionOptions session;                       // calibrate() overwrites compute and low
  std::function<void(const std::string&)> say;  // called with one line per candidate plan
};

struct Measured {
  std::vector<NodeRanges> nodes;   // indexed by source node
  std::vector<ValueRange> inputs;  // indexed by source value
  double loss = 0;                 // mean over the batches
  HostTensor gradients;            // the gradient arena: gradients of that mean
};

struct CalibratedPlan {
  PrecisionPlan plan;    // its list contains the rules found and the loss scale
  double error = 0;      // relative to fp32: the larger one of the errors of loss and gradients
  double low_share = 0;  // share of all computed elements, forward and backward, that are in 16 bits
  bool within = false;   // error <= rtol; if false, even the plan without 16-bit nodes has a larger error
};

Measured measure_ranges(const SourceGraph& g, const SessionOptions& session, const Losses& loss,
                        const std::vector<Tensors>& batches);

// Returns the best plan. Throws E_CALIBRATE: a usage error without batches, exit 8 if the fp32 run itself is not
// finite.
CalibratedPlan calibrate(const SourceGraph& g, const Losses& loss, const std::vector<Tensors>& batches,
                         const CalibrateOptions& options);

}  // namespace amp
