// OptimizationSpec: settings of the optimizer: rates, groups, clipping, averages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/spec/default.h"

namespace amp {

struct OptimizationSpec {
  std::string optimizer = "adamw";
  std::string optim_args;  // "key=value,...": docs/optimizers.md
  Default<double> lr{5e-5};
  double momentum = 0;
  std::string lr_base_scale = "none";
  int64_t lr_base_size = 256;  // samples per step
  bool nesterov = false;
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;
  double weight_decay = 0;
  std::string decay_exclude = "auto";
  std::vector<std::string> param_group;  // "GLOB: lr=1e-5, weight_decay=0": docs/optimizers.md
  double layer_decay = 1;                // 1: none
  int64_t gradual_unfreezing = 0;        // applied steps per layer; 0: none
  double max_grad_norm = 1;
  std::string clip_mode = "norm";
  std::vector<std::string> ema_decay{"0"};  // at most four numbers; 0: none
  int64_t ema_every = 1;                    // applied steps
  bool ema_warmup = false;
  double swa_start = -1;  // applied steps, or a fraction of the run; -1: none
  double swa_lr = -1;     // -1: the schedule continues
  int64_t swa_anneal_steps = 10;
  std::string swa_anneal_strategy = "cos";
  double gradient_noise = 0;  // eta; 0: none
  int64_t lookahead = 0;      // steps; 0: none
  double lookahead_alpha = 0.5;
  double sam_rho = 0;  // 0: none
  bool gradient_centralization = false;
  int64_t optim_bits = 32;
};

}  // namespace amp
