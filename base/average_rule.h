// Moving averages of the weights (EMA and SWA); shared by CPU and GPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/dtype.h"

namespace amp {

struct AverageRule {
  double decay = 0;
  int64_t every = 1;  // applied steps between two updates of the average
  // If true, update t (from 0) uses at most the decay 1 - (1 + t)^(-2/3), as in timm's ModelEmaV3.
  bool warmup = false;
  // Stochastic weight averaging (Izmailov et al. 2018, arXiv:1803.05407): after this applied step the average is the
  // plain mean of the weights, without decay. -1: off.
  int64_t swa_start = -1;

  // Returns the factor d of the update "average = d * average + (1 - d) * weights" at an applied step (counted from
  // 1; see docs/glossary.md).
  HD double keeps(int64_t applied) const {
    if (swa_start >= 0) {
      if (applied <= swa_start) return 0;  // the average equals the weights until averaging starts
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
