// GradientWatch: is notified of finished gradients while a Program runs on the host.
#pragma once

#include "backend/kernel.h"

namespace amp {

class GradientWatch {
 public:
  virtual ~GradientWatch() = default;
  virtual void begin() = 0;  // called at the start of a run that reports gradients
  // Called when the parameter's gradient is in the arena and this run will not change it again, in the order of the run
  // and on its thread. rows: for a table, the indices (int32 or int64) of all rows that may be nonzero; negative
  // indices count from the end. The pointer is valid only during the call, and null if the rows are not known.
  virtual void done(int slot, const Tensor* rows) = 0;
};

}  // namespace amp
