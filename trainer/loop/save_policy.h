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

// Returns the strategy with the name "auto", "epoch", "steps" or "no". Throws E_USAGE for another text.
SaveStrategy save_strategy(const std::string& text);

// Bounds the time that checkpoints take to a share of the run's time. The first checkpoint is always affordable,
// because its cost is unknown. A later checkpoint is affordable if the total time of checkpoints stays within the
// share, assuming that it takes as long as the longest one so far. The time of writing counts although steps go on
// meanwhile: the disk is shared, and on a busy machine so is the processor. Times are in seconds.
class SaveBudget {
 public:
  static constexpr double kShare = 0.035;

  // elapsed: time since the run began, including checkpoints.
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
