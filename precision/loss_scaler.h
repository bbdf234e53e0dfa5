// Dynamic loss scaling: the state machine of torch.amp.GradScaler, with a floor, a ceiling and hysteresis in addition.
//
// update() is called once per accumulation step, after the finite check of the gradients (reduced over all ranks):
//     found_inf:  the step is skipped; scale *= backoff_factor, growth tracker = 0
//     else:       tracker + 1; at growth_interval: scale *= growth_factor if the result is finite, and tracker = 0
// The scale is a float, the factors are doubles, and each product is rounded once, as in PyTorch on CPU and CUDA.
// Hysteresis follows Apex's update_scale_hysteresis: the scale backs off after `hysteresis` non-finite steps in a row
// (1 as in PyTorch); a finite step resets the count. With min 0 and max infinity, PyTorch's results are reproduced bit
// by bit, including the decay to 0.
#pragma once

#include <cstdint>
#include <string>

#include "base/scale_rule.h"

namespace amp {

struct LossScaleConfig {
  enum class Mode : uint8_t {
    dynamic,
    fixed,  // "static": the scale remains `init`; non-finite steps are skipped
    off,    // the scale is 1; non-finite steps are skipped (bf16, or a plan without fp16)
  };
  Mode mode = Mode::dynamic;
  double init = 65536;  // initial scale; in mode fixed, the scale
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int32_t growth_interval = 2000;
  double min = 1;         // lowest scale after backing off; 0: no floor
  double max = 16777216;  // highest scale after growth; infinity: the scale only has to be finite
  int32_t hysteresis = 1;

  bool operator==(const LossScaleConfig&) const = default;
};

// Throws E_LOSS_SCALE (Exit::usage) with the name of the invalid field. Requires growth_factor > 1, backoff_factor in
// (0, 1), growth_interval and hysteresis of at least 1, and finite fields except max. In dynamic mode, init must be in
// [min, max].
void validate(const LossScaleConfig& config);

ScaleRule scale_rule(const LossScaleConfig& config);

// How an accumulation step changes the scale.
struct StepScale {
  bool applied = true;  // whether the optimizer may update the weights and the applied steps are counted
  float used = 1;       // scale of this step's gradients
  float next = 1;       // the scale of the next step
  bool grew = false, backed_off = false;
  bool at_floor = false;  // the step is not finite, and the scale is already at its floor
  int64_t consecutive_skips = 0;
};

// Returns the effect of a step. used: the scale of the step's gradients. after: the state of the scaler after the step.
StepScale make_scale_report(const LossScaleConfig& config, float used, const ScaleState& after, bool found_inf);

class LossScaler {
 public:
  using State = ScaleState;  // saved in checkpoints; scale and growth_tracker correspond to GradScaler's state_dict

  explicit LossScaler(const LossScaleConfig& config = {});  // validates config

  bool enabled() const { return config_.mode != LossScaleConfig::Mode::off; }
  float scale() const { return state_.scale; }
  // Returns float(1 / double(scale)), the factor for gradients before clipping and stepping; infinity for scale 0.
  float unscale_factor() const;
  StepScale update(bool found_inf);
  // Sets the scale and keeps the trackers, as GradScaler.update(new_scale) does.
  void set_scale(float scale);

  const LossScaleConfig& config() const { return config_; }
  const State& state() const { return state_; }
  // Continues from a checkpoint. Throws E_CKPT_STATE (Exit::checkpoint) if the scale is NaN or negative. A scaler
  // in mode off or fixed keeps its own scale and restores only the counters.
  void restore(const State& state);

 private:
  LossScaleConfig config_;
  State state_;
};

}  // namespace amp
