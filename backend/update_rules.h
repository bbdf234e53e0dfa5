// The table of update rules, one row per rule. update_rule_names() returns their names.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "backend/rules/adadelta.h"
#include "backend/rules/adafactor.h"
#include "backend/rules/adagrad.h"
#include "backend/rules/adahessian.h"
#include "backend/rules/adam.h"
#include "backend/rules/adamax.h"
#include "backend/rules/adamp.h"
#include "backend/rules/lamb.h"
#include "backend/rules/lars.h"
#include "backend/rules/lion.h"
#include "backend/rules/muon.h"
#include "backend/rules/nadam.h"
#include "backend/rules/radam.h"
#include "backend/rules/rmsprop.h"
#include "backend/rules/schedule_free.h"
#include "backend/rules/sgd.h"
#include "backend/rules/sophia.h"
#include "base/error.h"

namespace amp {

using UpdateRules =
    std::tuple<Sgd, Adam, AdamW, Adamax, NAdam, NAdamW, RAdam, RAdamW, Adagrad, Adadelta, Rmsprop, RmspropTf, Lion,
               Lamb, Lars, AdaHessian, SophiaH, SophiaG, ScheduleFreeAdamW, Adafactor, AdamP, SgdP, Muon>;

// Calls f(Rule{}) with the named rule.
template <class F>
void with_update_rule(std::string_view name, F&& f) {
  bool found = false;
  std::apply([&](auto... rule) { ((rule.name == name ? (found = true, f(rule)) : void()), ...); }, UpdateRules{});
  if (!found) bug(cat("there is no update rule '", name, "'"));
}

inline std::vector<std::string> update_rule_names() {
  return std::apply([](auto... rule) { return std::vector<std::string>{std::string(rule.name)...}; }, UpdateRules{});
}

inline int moments_of(std::string_view name, const RuleSettings& settings) {
  int n = 0;
  with_update_rule(name, [&](auto rule) { n = rule.moments(settings); });
  return n;
}

// Calls f(Element{}) with the variant that the settings select.
template <class F>
void with_element(std::string_view name, const RuleSettings& settings, F&& f) {
  with_update_rule(name, [&](auto rule) { rule.visit(settings, f); });
}

// Calls f(Rule{}) if the named rule is a tensor-wise optimizer.
template <class F>
void with_tensor_rule(std::string_view name, F&& f) {
  with_update_rule(name, [&]<class Rule>(Rule rule) {
    if constexpr (kTensorWise<Rule>) f(rule);
  });
}

// True if the rule needs norms of whole tensors.
inline bool rule_needs_norms(std::string_view name, const RuleSettings& settings) {
  bool yes = false;
  with_element(name, settings, [&]<class Element>(Element) { yes = kNeedsNorms<Element>; });
  return yes;
}

// True if the rule needs an estimate of the Hessian's diagonal.
inline bool rule_needs_hessian_diagonal(std::string_view name, const RuleSettings& settings) {
  bool yes = false;
  with_element(name, settings, [&]<class Element>(Element) { yes = kNeedsHessianDiagonal<Element>; });
  return yes;
}

// True if that estimate uses gradients for labels that are sampled from the model's outputs.
inline bool rule_samples_labels(std::string_view name, const RuleSettings& settings) {
  bool yes = false;
  with_element(name, settings, [&]<class Element>(Element) { yes = kSamplesLabels<Element>; });
  return yes;
}

// True if the evaluated weights differ from the trained ones.
template <class Element>
constexpr bool kHasEvaluatedWeights = requires(const RuleSettings& s) {
  Element::evaluated(s, 0.0f, 0.0f);
};

}  // namespace amp
