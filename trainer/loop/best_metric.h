// BestMetric: the best evaluation so far, and the number of evaluations since an improvement that counts for early
// stopping. As in Hugging Face's Trainer and EarlyStoppingCallback, any improvement makes an evaluation the best one,
// but only an improvement above the threshold resets the count.
#pragma once

#include <cmath>
#include <cstdint>

namespace amp {

struct BestMetric {
  double value = 0;
  int64_t step = -1;  // -1: none yet
  int64_t evals_since = 0;

  // Records an evaluation; returns whether it is the best one.
  bool observe(double metric, int64_t at_step, bool lower_is_better, double threshold) {
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
