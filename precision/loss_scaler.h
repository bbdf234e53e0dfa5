// Dynamic loss scaling: the state machine of torch.amp.GradScaler, exactly, plus a floor, a ceiling and hysteresis.
//
// One update() per accumulation window, after the gradients' finite check (reduced over all ranks):
//   found_inf:  the step is skipped; scale *= backoff_factor, growth tracker = 0
//   else:       tracker + 1; at growth_interval: scale *= growth_factor if that is finite, tracker = 0 either way
// The scale is a float, the factors are doubles and each product is rounded once, as PyTorch does it on CPU and CUDA.
// Hysteresis is Apex's update_scale_hysteresis: that many non-finite steps in a row are needed before the scale backs
// off (1 = PyTorch); the count is armed again by a finite step. With min 0 and max infinity PyTorch's traces are
// reproduced to the last bit, its decay to 0 included.
#pragma once

#include <cstdint>
#include <string>

#include "base/scale_rule.h"

namespace amp {

struct LossScaleConfig {
  enum class Mode : uint8_t {
    dynamic,
    fixed,  // "static": the scale stays at init, non-finite steps are skipped
    off,    // the scale is 1, non-finite steps are skipped (bf16, or a plan without fp16)
  };
  Mode mode = Mode::dynamic;
  double init = 65536;  // also the scale of mode fixed
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int32_t growth_interval = 2000;
  double min = 1;         // a back-off stops here; 0: no floor
  double max = 16777216;  // growth stops here; infinity: no ceiling but finiteness
  int32_t hysteresis = 1;

  bool operator==(const LossScaleConfig&) const = default;
};

// Usage error (E_LOSS_SCALE) naming the field: growth_factor <= 1, backoff_factor outside (0, 1), init outside
// [min, max] in dynamic mode, an interval or hysteresis below 1, anything not finite but max.
void validate(const LossScaleConfig& config);

ScaleRule scale_rule(const LossScaleConfig& config);

// What a step did with the scale.
struct StepScale {
  bool applied = true;  // the optimizer may step; everything else that counts applied steps follows this
  float used = 1;       // the scale the step's gradients carry
  float next = 1;       // the scale of the next step
  bool grew = false, backed_off = false;
  bool at_floor = false;  // non-finite although the scale cannot be lowered any more
  int64_t consecutive_skips = 0;
};

// Told from the state after the step.
StepScale make_scale_report(const LossScaleConfig& config, float used, const ScaleState& after, bool found_inf);

class LossScaler {
 public:
  using State = ScaleState;  // what a checkpoint keeps; GradScaler's state_dict is scale and growth_tracker of it

  explicit LossScaler(const LossScaleConfig& config = {});  // validates

  bool enabled() const { return config_.mode != LossScaleConfig::Mode::off; }
  float scale() const { return state_.scale; }
  // What gradients are multiplied by before clipping and stepping: float(1 / double(scale)); infinity for scale 0.
  float unscale_factor() const;
  StepScale update(bool found_inf);
  // GradScaler.update(new_scale): sets the scale and leaves the trackers.
  void set_scale(float scale);

  const LossScaleConfig& config() const { return config_; }
  const State& state() const { return state_; }
  // Continues from a checkpoint. A NaN or negative scale is a checkpoint error (E_LOSS_SCALE_STATE). A scaler that is
  // off or fixed keeps its own scale and takes the counters.
  void restore(const State& state);

 private:
  LossScaleConfig config_;
  State state_;
};

}  // namespace amp
