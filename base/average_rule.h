// How moving averages of the weights follow them, for the CPU and the GPU alike.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/dtype.h"

namespace amp {

struct AverageRule {
  double decay = 0;
  int64_t every = 1;  // applied steps from one move to the next
  // timm's ModelEmaV3 warms its decay up: 1 - (1 + t)^(-2/3), from t = 0 on.
  bool warmup = false;
  // Stochastic weight averaging (Izmailov et al. 2018, arXiv:1803.05407): from this applied step on the plain mean of
  // the weights, in the place of a decay. -1: none.
  int64_t swa_start = -1;

  // What is left of the average at an applied step, counted from 1; the rest is the weights'.
  HD double keeps(int64_t applied) const {
    if (swa_start >= 0) {
      if (applied <= swa_start) return 0;  // follows the weights until it begins
      const int64_t since = applied - swa_start - 1;
      if (since % every != 0) return 1;
      const auto averaged = static_cast<double>(since / every);
      return averaged / (averaged + 1);
    }
    if (applied % every != 0) return 1;
    if (!warmup) return decay;
    const double most = 1 - pow(static_cast<double>(applied), -2.0 / 3.0);
    return decay < most ? decay : most;
  }
};

}  // namespace amp
