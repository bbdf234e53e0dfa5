// An update rule: how one element of a parameter moves, given its gradient. The same source is the CPU's loop and the
// GPU's kernel. Adding one is a file in backend/rules and its row in backend/update_rules.h. A rule is
//
//   struct Lion {
//     static constexpr std::string_view name = "lion";
//     static int moments(const RuleSettings&);               // spans of state it keeps: 0, 1 or 2
//     template <class F>
//     static void visit(const RuleSettings&, F&& f);         // f(Element{}) with the variant that is asked for
//   };
//
// and an Element, compiled for both devices (T is float, or double on the CPU),
//
//   struct LionElement {
//     static constexpr int moments = 1;
//     template <class T> struct Scalars { ... };                        // of a span of elements, in T
//     HD static void once(const RuleSettings&, int64_t t, double (&facts)[kRuleFacts]);   // once a step; t counts from
//     1
//     template <class T> HD static Scalars<T> scalars(const RuleSettings&, const RuleStep&);
//     template <class T> HD static T move(const Scalars<T>&, T p, T g, T& m, T& v);       // returns the new p
//   };
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"
#include "base/simd.h"

namespace amp {

constexpr int kRuleFacts = 4;

// What the rules may be set to; each reads what it knows.
struct RuleSettings {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // adam, adamw
  double momentum = 0;                            // sgd; dampening is 0
  bool nesterov = false;
};

struct RuleStep {
  double lr = 0;     // the schedule's, times the span's factor
  double decay = 0;  // weight decay; 0 where the span has none
  double facts[kRuleFacts] = {};
};

}  // namespace amp
