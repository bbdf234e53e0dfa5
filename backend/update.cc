#include "backend/update.h"

#include <algorithm>
#include <cmath>

#include "backend/update_rules.h"
#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace {

[[noreturn]] void unknown(const char* flag, const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  fail(Exit::usage, "E_FLAG_VALUE", cat("--", flag, ": unknown value '", printable(name), "'"),
       cat(near.empty() ? "" : "did you mean '" + near + "'? ", "one of: ", join(known, ", ")));
}

void require(bool ok, const char* flag, double value, const char* range) {
  if (!ok) fail(Exit::usage, "E_FLAG_RANGE", cat("--", flag, " is ", value), cat("give ", range));
}

}  // namespace

std::string update_rule_from_name(const std::string& name) {
  const std::vector<std::string> known = update_rule_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) unknown("optimizer", name, known);
  return name;
}

ClipMode clip_mode_from_name(const std::string& name) {
  if (name == "norm") return ClipMode::norm2;
  if (name == "inf") return ClipMode::norm_inf;
  if (name == "value") return ClipMode::value;
  unknown("clip_mode", name, {"norm", "inf", "value"});
}

int OptimizerConfig::moments() const { return moments_of(rule, settings); }

// The comparisons are written so that NaN fails them.
void OptimizerConfig::validate() const {
  const RuleSettings& s = settings;
  require(s.beta1 >= 0 && s.beta1 < 1, "adam_beta1", s.beta1, "a number in [0, 1)");
  require(s.beta2 >= 0 && s.beta2 < 1, "adam_beta2", s.beta2, "a number in [0, 1)");
  require(s.eps >= 0 && std::isfinite(s.eps), "adam_epsilon", s.eps, "a number >= 0");
  require(s.momentum >= 0 && s.momentum < 1, "momentum", s.momentum, "a number in [0, 1)");
  require(!s.nesterov || rule != "sgd" || s.momentum > 0, "momentum", s.momentum,
          "a number above 0: --nesterov needs it");
  require(weight_decay >= 0 && std::isfinite(weight_decay), "weight_decay", weight_decay, "a number >= 0");
  require(max_grad_norm >= 0, "max_grad_norm", max_grad_norm, "a number >= 0 (0: no clipping)");
  require(ema_decay >= 0 && ema_decay < 1, "ema_decay", ema_decay, "a number in [0, 1) (0: no EMA)");
}

}  // namespace amp
