// The best evaluation so far, and for how long none was better enough for early stopping, as Hugging Face's Trainer and
// its EarlyStoppingCallback count: the best one is the best by however little, what must be more than the threshold is
// the distance to it.
#pragma once

#include <cmath>
#include <cstdint>

namespace amp {

struct BestMetric {
  double value = 0;
  int64_t step = -1;  // -1: none yet
  int64_t evals_since = 0;

  // Of an evaluation; true: it is the best one.
  bool see(double metric, int64_t at_step, bool lower_is_better, double threshold) {
    const double gain = lower_is_better ? value - metric : metric - value;
    const bool better = std::isfinite(metric) && (step < 0 || gain > 0);
    evals_since = better && (step < 0 || gain > threshold) ? 0 : evals_since + 1;
    if (better) {
      value = metric;
      step = at_step;
    }
    return better;
  }
};

}  // namespace amp
