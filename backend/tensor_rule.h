// A rule of whole tensors: what a parameter moves by is known only of all of it (a norm of each row, a product of
// matrices), or its state is not of the parameter's shape. It is computed on the CPU. Adding one is, as for rules of
// elements (backend/update_rule.h), a file in backend/rules and its row in backend/update_rules.h:
//
//   struct Muon : TensorRule {
//     static constexpr std::string_view name = "muon";
//     static constexpr RuleKey keys[] = {...};
//     static std::vector<TensorState> states(const RuleSettings&, const TensorShape&);   // what it keeps of a tensor
//     static int64_t scratch(const RuleSettings&, const TensorShape&);   // elements that a step needs for a while
//     template <class T>
//     static void move(const RuleSettings&, const RuleStep&, const TensorStep<T>&);
//   };
//
// State begins as zeros. Sums are added in an order that the number of threads does not change.
#pragma once

#include <cmath>
#include <vector>

#include "backend/parallel.h"
#include "backend/update_rule.h"
#include "base/shape.h"

namespace amp {

struct TensorShape {
  Dims dims;
  bool elementwise = false;  // asked to move as vectors do, where the rule has another way for matrices
  int64_t count() const { return numel(dims); }
};

struct TensorState {
  const char* name;  // of the rule's states; a tensor may have some of them
  int64_t count;     // elements
};

template <class T>
struct TensorStep {
  const TensorShape& shape;
  int64_t n;                 // elements
  int64_t t;                 // applied steps of this tensor, with this one
  T* p;                      // moves
  T* g;                      // the gradient, unscaled and clipped; the rule may overwrite it
  const std::vector<T*>& s;  // state, in the order of states()
  T* scratch;
};

struct TensorRule {
  static constexpr bool whole = true;
  // It has nothing to say of elements.
  static int moments(const RuleSettings&) { return 0; }
  template <class F>
  static void visit(const RuleSettings&, F&&) {}
};

template <class Rule>
constexpr bool kWhole = requires {
  Rule::whole;
};

constexpr int64_t kTensorGrain = 16384;  // elements that one thread takes at a time

// Calls f(i) for the elements [0, n).
template <class F>
void for_elements(int64_t n, F&& f) {
  parallel_for((n + kTensorGrain - 1) / kTensorGrain, [&](int64_t k) {
    const int64_t end = std::min(n, (k + 1) * kTensorGrain);
    for (int64_t i = k * kTensorGrain; i < end; ++i) f(i);
  });
}

// Calls f(begin, end) for parts of [0, units), each of about kTensorGrain elements.
template <class F>
void for_units(int64_t units, int64_t elements_each, F&& f) {
  parallel_ranges(units, std::max<int64_t>(1, kTensorGrain / std::max<int64_t>(elements_each, 1)), f,
                  std::numeric_limits<int64_t>::max());
}

// The sum of f(i) over [begin, end), in eight lanes.
template <class F>
double lane_sum(int64_t begin, int64_t end, F&& f) {
  double lanes[8] = {};
  int64_t i = begin;
  for (; i + 8 <= end; i += 8) {
    for (int64_t k = 0; k < 8; ++k) lanes[k] += static_cast<double>(f(i + k));
  }
  double sum = 0;
  for (; i < end; ++i) sum += static_cast<double>(f(i));
  for (const double x : lanes) sum += x;
  return sum;
}

// The sum of f(i) over [0, n).
template <class F>
double tensor_sum(int64_t n, F&& f) {
  std::vector<double> parts(static_cast<size_t>((n + kTensorGrain - 1) / kTensorGrain));
  parallel_for(static_cast<int64_t>(parts.size()), [&](int64_t k) {
    parts[static_cast<size_t>(k)] = lane_sum(k * kTensorGrain, std::min(n, (k + 1) * kTensorGrain), f);
  });
  double sum = 0;
  for (const double x : parts) sum += x;
  return sum;
}

}  // namespace amp
