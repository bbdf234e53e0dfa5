// GradientWatch: is notified of finished gradients while a Program runs on the host.
#pragma once

#include "backend/kernel.h"

namespace amp {

class GradientWatch {
 public:
  virtual ~GradientWatch() = default;
  virtual void begin() = 0;  // called at the start of a run that reports gradients
  // The parameter's gradient is in the arena and this run does not change it any more. Called in the order of the
  // run, on its thread. rows: for a table, the indices (int32 or int64) of all rows that may be nonzero. Negative
  // indices count from the end. The tensor is valid during the call; null if the rows are unknown.
  virtual void done(int slot, const Tensor* rows) = 0;
};

}  // namespace amp
