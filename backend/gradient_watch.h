// GradientWatch: told, while a Program runs on the host, of gradients as they are finished.
#pragma once

#include "backend/kernel.h"

namespace amp {

class GradientWatch {
 public:
  virtual ~GradientWatch() = default;
  virtual void begin() = 0;  // of the run that tells
  // The gradient of that parameter is in the arena, and this run does not touch it any more. In the order of the run,
  // on its thread. rows: of a table, indices (int32 or int64) of all rows that may be other than zero, negative ones
  // from the end, valid during the call; null: they are not known.
  virtual void done(int slot, const Tensor* rows) = 0;
};

}  // namespace amp
