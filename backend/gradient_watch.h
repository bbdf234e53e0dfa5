// GradientWatch: told, while a Program runs on the host, of gradients as they are finished.
#pragma once

namespace amp {

class GradientWatch {
 public:
  virtual ~GradientWatch() = default;
  // The gradient of that parameter is in the arena, and this run does not touch it any more. In the order of the run,
  // on its thread.
  virtual void done(int slot) = 0;
};

}  // namespace amp
