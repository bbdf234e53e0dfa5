// Implements OptimizerConfig: names, settings and validation of optimizers, properties that follow from the settings,
// and the bytes of optimizer state. The update rules are in backend/rules/, the update loops in backend/cpu/update/ and
// backend/cuda/.

#include "backend/update.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/tensor_layout.h"
#include "backend/update_rules.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/setting_name.h"
#include "base/text.h"

namespace amp {

namespace {

[[noreturn]] void unknown(const char* flag, const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  fail(Exit::usage, "E_FLAG_VALUE", cat(setting_name(flag), ": unknown value '", printable(name), "'"),
       cat(near.empty() ? "" : "did you mean '" + near + "'? ", "one of: ", join(known, ", ")));
}

void require(bool ok, const char* flag, double value, const char* range) {
  if (!ok) fail(Exit::usage, "E_FLAG_RANGE", cat(setting_name(flag), " is ", value), cat("give ", range));
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
  if (name == "agc") return ClipMode::adaptive;
  unknown("clip_mode", name, {"norm", "inf", "value", "agc"});
}

std::vector<RuleKey> rule_keys(std::string_view rule) {
  std::vector<RuleKey> keys;
  // Rule::keys is used, because clang 16 cannot determine the bound of r.keys for a value r.
  with_update_rule(rule, [&]<class Rule>(Rule) { keys.assign(std::begin(Rule::keys), std::end(Rule::keys)); });
  return keys;
}

RuleSettings rule_settings(const std::string& rule, const std::map<std::string, double>& given) {
  RuleSettings s;
  std::vector<std::string> names;
  for (const RuleKey& k : rule_keys(rule)) {
    const auto it = given.find(std::string(k.name));
    s.*k.value = it == given.end() ? k.initial : it->second;
    names.emplace_back(k.name);
  }
  for (const auto& [name, value] : given) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string near = nearest(name, names);
    fail(Exit::usage, "E_FLAG_VALUE", cat("`optim_args`: ", rule, " has no '", printable(name), "'"),
         names.empty() ? cat("leave `optim_args` out: ", rule, " has no settings")
                       : cat(near.empty() ? "" : "did you mean '" + near + "'? ", rule, " has: ", join(names, ", ")));
  }
  return s;
}

double RuleSettings::*cycled_key(const std::string& rule) {
  bool whole = false;
  with_tensor_rule(rule, [&](auto) { whole = true; });
  for (const char* const name : {"beta1", "momentum"}) {
    for (const RuleKey& k : rule_keys(rule)) {
      if (!whole && k.name == name) return k.value;
    }
  }
  fail(Exit::usage, "E_FLAG_VALUE",
       cat("`lr_scheduler_kwargs` cycle_momentum: `optimizer` ", rule,
           whole ? " moves tensors as a whole" : " has neither momentum nor beta1"),
       "leave cycle_momentum out, or `optimizer` sgd, adam, adamw ...");
}

int OptimizerConfig::moments() const { return moments_of(rule, settings); }
bool OptimizerConfig::needs_hessian_diagonal() const { return rule_needs_hessian_diagonal(rule, settings); }
bool OptimizerConfig::samples_labels() const { return rule_samples_labels(rule, settings); }
bool OptimizerConfig::tensor_wise() const {
  bool yes = false;
  with_tensor_rule(rule, [&](auto) { yes = true; });
  return yes;
}

int64_t OptimizerConfig::state_bytes(const std::vector<UpdateSpan>& spans, int64_t elements) const {
  if (sharded()) {  // SAM's saved weights and the curvature estimate are not sharded
    const int64_t own = (elements + shards - 1) / shards;
    return 4 *
           (own * (averages() + (lookahead > 0) + moments()) + elements * ((sam_rho > 0) + needs_hessian_diagonal()));
  }
  const int64_t wide = averages() + (lookahead > 0) + (sam_rho > 0) + needs_hessian_diagonal();
  const int64_t tensors = tensor_wise() ? TensorLayout(rule, settings, spans).bytes() : 0;
  if (!quantized()) return tensors + elements * 4 * (wide + moments());
  int64_t bytes = 0;
  for (const UpdateSpan& s : spans) {
    const int64_t blocks = (s.count + kQuantizedBlock - 1) / kQuantizedBlock;
    bytes += s.count < kLeastQuantized ? s.count * 4 : s.count + blocks * 4;
  }
  return elements * 4 * wide + bytes * moments();
}

AverageRule OptimizerConfig::average_rule(int k) const {
  if (swa_start >= 0) return {0, ema_every, false, swa_start};
  return {ema_decays.at(static_cast<size_t>(k)), ema_every, ema_warmup, -1};
}

std::string OptimizerConfig::average_name(int k) const {
  return k == 0 ? "ema" : "ema:" + number_text(ema_decays.at(static_cast<size_t>(k)));
}

double OptimizerConfig::clip_bound(const UpdateSpan& span) const {
  return span.clip_group > 0 ? span.max_grad_norm : max_grad_norm;
}

double OptimizerConfig::element_limit(const UpdateSpan& span) const {
  const double bound = clip_mode == ClipMode::value ? clip_bound(span) : 0;
  return bound > 0 ? bound : std::numeric_limits<double>::infinity();
}

bool OptimizerConfig::transforms_gradients(const std::vector<UpdateSpan>& spans) const {
  return centralize ||
         (clip_mode == ClipMode::adaptive &&
          std::any_of(spans.begin(), spans.end(), [&](const UpdateSpan& s) { return clip_bound(s) > 0; }));
}

bool OptimizerConfig::has_evaluated_weights() const {
  bool yes = false;
  with_element(rule, settings, [&]<class Element>(Element) { yes = kHasEvaluatedWeights<Element>; });
  return yes;
}

bool OptimizerConfig::keeps_step_scalars() const {
  bool yes = false;
  with_element(rule, settings, [&]<class Element>(Element) { yes = kKeepsStepScalars<Element>; });
  return yes;
}

void convert_to_evaluated(const OptimizerConfig& optimizer, float* params, const float* m, int64_t count) {
  with_element(optimizer.rule, optimizer.settings, [&]<class Element>(Element) {
    if constexpr (kHasEvaluatedWeights<Element>) {
      for (int64_t i = 0; i < count; ++i) params[i] = Element::evaluated(optimizer.settings, params[i], m[i]);
    }
  });
}

// The comparisons are written so that NaN fails them.
void OptimizerConfig::validate() const {
  const RuleSettings& s = settings;
  for (const RuleKey& k : rule_keys(rule)) {
    const double x = s.*k.value;
    const std::string number = k.integer ? "a whole number" : "a number";
    const std::string range = k.truth             ? "true or false"
                              : k.high < kNoLimit ? cat(number, " in [", k.low, ", ", k.high, k.closed ? "]" : ")")
                                                  : cat(number, " >= ", k.low);
    const std::string flag = k.flag.empty() ? cat("optim_args ", k.name) : std::string(k.flag);
    const bool within = x >= k.low && (x < k.high || (k.closed && x == k.high)) && (!k.integer || x == std::floor(x));
    require(k.truth ? x == 0 || x == 1 : within, flag.c_str(), x, range.c_str());
  }
  require(!s.nesterov || (rule != "sgd" && rule != "lars") || s.momentum > 0, "momentum", s.momentum,
          "a number above 0: `nesterov` needs it");
  require(!s.nesterov || s.dampening == 0, "optim_args dampening", s.dampening, "0: `nesterov` needs it");
  require(weight_decay >= 0 && std::isfinite(weight_decay), "weight_decay", weight_decay, "a number >= 0");
  require(max_grad_norm >= 0, "max_grad_norm", max_grad_norm, "a number >= 0 (0: no clipping)");
  for (const double decay : ema_decays) {
    require(decay > 0 && decay < 1, "ema_decay", decay, "a number in [0, 1) (0: no EMA)");
    require(!has_evaluated_weights(), "ema_decay", decay, cat("0: ", rule, " averages by itself").c_str());
    require(std::count(ema_decays.begin(), ema_decays.end(), decay) == 1, "ema_decay", decay, "each decay once");
  }
  require(ema_decays.size() <= kMaxAverages, "ema_decay", ema_decays.empty() ? 0 : ema_decays.back(),
          cat("at most ", kMaxAverages, " decays").c_str());
  require(ema_every >= 1, "ema_every", static_cast<double>(ema_every), "a number of steps, at least 1");
  require(swa_start < 0 || ema_decays.empty(), "swa_start", static_cast<double>(swa_start),
          "-1 (none), or leave `ema_decay` out: one average is kept");
  require(swa_start < 0 || !has_evaluated_weights(), "swa_start", static_cast<double>(swa_start),
          cat("-1: ", rule, " averages by itself").c_str());
  require(gradient_noise >= 0 && std::isfinite(gradient_noise), "gradient_noise", gradient_noise,
          "a number >= 0 (0: none)");
  require(lookahead >= 0, "lookahead", static_cast<double>(lookahead), "a number of steps, or 0 for none");
  require(lookahead == 0 || !has_evaluated_weights(), "lookahead", static_cast<double>(lookahead),
          cat("0: ", rule, " averages by itself").c_str());
  require(lookahead_alpha > 0 && lookahead_alpha <= 1, "lookahead_alpha", lookahead_alpha, "a number in (0, 1]");
  require(state_bits == 32 || state_bits == 8, "optim_bits", static_cast<double>(state_bits), "32 or 8");
  bool quantizes = false;
  with_element(rule, settings,
               [&]<class Element>(Element) { quantizes = kQuantizes<Element> && Element::moments <= 2; });
  if (quantized() && !quantizes)
    fail(Exit::usage, "E_FLAG_VALUE", cat("`optim_bits` 8: ", rule, " keeps its moments in 32 bits"),
         "`optimizer` adam, adamw (without amsgrad) or lion");
  require(sam_rho >= 0 && std::isfinite(sam_rho), "sam_rho", sam_rho, "a number >= 0 (0: none)");
  if (!sharded()) return;
  const char* const why = tensor_wise() || rule_needs_norms(rule, settings) ? " needs whole tensors"
                          : has_evaluated_weights()                         ? " evaluates an average of the weights"
                          : quantized() ? " stores its moments in blocks (`optim_bits` 8)"
                                        : nullptr;
  if (why)
    fail(Exit::usage, "E_FLAG_VALUE", cat("`shard_optimizer`: ", rule, why),
         "leave it out, or `optimizer` adamw, sgd ...");
}

}  // namespace amp
