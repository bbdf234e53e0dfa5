// PrecisionSpec: settings of precision and of the loss scale.
#pragma once

#include <cstdint>
#include <string>

#include "run/spec/default.h"

namespace amp {

struct PrecisionSpec {
  Default<bool> use_fp16{false}, use_bf16{false};
  Default<std::string> amp_level{"O1"};
  std::string precision_plan;
  int64_t calibrate_batches = 4;
  double calibrate_rtol = 0;
  std::string dtype = "fp32";  // dtype of evaluation, prediction and gradients: fp32, fp64, fp16, bf16
  Default<std::string> loss_scale{"dynamic"};
  Default<double> init_loss_scale{65536}, scale_growth_factor{2}, scale_backoff_factor{0.5};
  Default<int64_t> scale_growth_interval{2000};
  Default<double> min_loss_scale{1}, max_loss_scale{16777216};
  Default<int64_t> scale_hysteresis{1};
  int64_t max_consecutive_skips = 50;
  std::string inject_overflow;
};

}  // namespace amp
