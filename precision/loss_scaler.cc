// Validation, checkpoint state and reports of the loss scaler. step_scale() in base/scale_rule.h computes the update
// itself; CPU and GPU share it, so both get the same scales.
#include "precision/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace amp {

using Mode = LossScaleConfig::Mode;

static void require(bool ok, const char* field, double value, const char* rule) {
  if (!ok) fail(Exit::usage, "E_LOSS_SCALE", cat("loss_scale.", field, " is ", value, ", it must be ", rule));
}

void validate(const LossScaleConfig& c) {
  require(std::isfinite(c.init) && c.init > 0 && std::isfinite(static_cast<float>(c.init)), "init", c.init,
          "positive and finite as a float");
  require(c.growth_factor > 1 && std::isfinite(c.growth_factor), "growth_factor", c.growth_factor, "above 1");
  require(c.backoff_factor > 0 && c.backoff_factor < 1, "backoff_factor", c.backoff_factor, "between 0 and 1");
  require(c.growth_interval >= 1, "growth_interval", c.growth_interval, "at least 1");
  require(c.hysteresis >= 1, "hysteresis", c.hysteresis, "at least 1");
  require(c.min >= 0 && std::isfinite(c.min), "min", c.min, "0 (no floor) or positive");
  require(c.max > 0 && c.max >= c.min, "max", c.max, "positive and at least min");
  if (c.mode == Mode::dynamic && (c.init < c.min || c.init > c.max)) {
    fail(Exit::usage, "E_LOSS_SCALE",
         cat("loss_scale.init is ", c.init, ", outside loss_scale.min ", c.min, " .. loss_scale.max ", c.max),
         "change init, or widen min and max");
  }
}

LossScaler::LossScaler(const LossScaleConfig& config) : config_(config) {
  validate(config_);
  state_.scale = enabled() ? static_cast<float>(config_.init) : 1.0f;
  state_.hysteresis_left = config_.hysteresis;
}

float LossScaler::unscale_factor() const { return static_cast<float>(1.0 / static_cast<double>(state_.scale)); }

ScaleRule scale_rule(const LossScaleConfig& c) {
  return {c.mode == Mode::dynamic, c.growth_factor, c.backoff_factor, c.min, c.max, c.growth_interval, c.hysteresis};
}

StepScale make_scale_report(const LossScaleConfig& config, float used, const ScaleState& after, bool found_inf) {
  StepScale out;
  out.applied = !found_inf;
  out.used = used;
  out.next = after.scale;
  out.grew = out.next > out.used;
  out.backed_off = out.next < out.used;
  out.at_floor = found_inf && !out.backed_off && (config.mode != Mode::dynamic || after.hysteresis_left == 0);
  out.consecutive_skips = after.consecutive_skips;
  return out;
}

StepScale LossScaler::update(bool found_inf) {
  const float used = state_.scale;
  step_scale(scale_rule(config_), state_, found_inf);
  return make_scale_report(config_, used, state_, found_inf);
}

void LossScaler::set_scale(float scale) {
  if (!(scale > 0) || !std::isfinite(scale)) {
    fail(Exit::usage, "E_LOSS_SCALE", cat("the loss scale is set to ", scale, ", it must be positive and finite"));
  }
  if (enabled()) state_.scale = scale;
}

void LossScaler::restore(const State& state) {
  if (!(state.scale >= 0) || !std::isfinite(state.scale) || state.growth_tracker < 0 || state.consecutive_skips < 0) {
    fail(Exit::checkpoint, "E_CKPT_STATE",
         cat("the loss scaler's state is damaged: scale ", state.scale, ", growth tracker ", state.growth_tracker));
  }
  const float own = state_.scale;
  state_ = state;
  state_.hysteresis_left = std::clamp(state.hysteresis_left, 0, config_.hysteresis);
  if (config_.mode != Mode::dynamic) state_.scale = own;
}

}  // namespace amp
