// When a run writes checkpoints (--save_strategy).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace amp {

enum class SaveStrategy : uint8_t {
  automatic,  // every save_steps steps, and at the end of epochs and at new best evaluations within SaveBudget
  epoch,      // at the end of each epoch, every save_steps steps, at each new best evaluation
  steps,      // every save_steps steps, at each new best evaluation
  none,       // only when the run is stopped before its end
};

// "auto", "epoch", "steps" or "no"; another text is E_USAGE.
SaveStrategy save_strategy(const std::string& text);

// Bounds the time that checkpoints take to a share of the run's time. The first checkpoint is always affordable: its
// cost is unknown until it has been written. A later one is affordable when the total, with another one as expensive as
// the most expensive so far, stays within the share. Times are in seconds.
class SaveBudget {
 public:
  static constexpr double kShare = 0.035;

  // elapsed: since the run began, checkpoints included.
  bool affords(double elapsed) const { return spent_ == 0 || spent_ + largest_ <= kShare * elapsed; }
  void spend(double seconds) {
    spent_ += seconds;
    largest_ = std::max(largest_, seconds);
  }
  double spent() const { return spent_; }

 private:
  double spent_ = 0, largest_ = 0;
};

}  // namespace amp
