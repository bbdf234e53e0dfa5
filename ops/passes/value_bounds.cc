// Interval analysis with one rule per operator. The results of an operator without a rule have no bounds. The results
// of operators with a singularity (Div, Log, Sqrt, Reciprocal, Pow, Exp) are finite only if the bounds of the operands
// exclude the singularity, for example because of the epsilon in Max(norm, 1e-12) or Add(variance, 1e-5).
#include "ops/passes/value_bounds.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <type_traits>

#include "graph/op.h"

namespace amp {

namespace {

constexpr double kInf = Bounds::kInf;
constexpr double kLargestExponent = 80;  // e^80 is finite in float32

double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

Bounds product(const Bounds& a, const Bounds& b) {
  const double c[] = {times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi)};
  Bounds out{*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
  out.finite = a.finite && b.finite;
  return out;
}

bool all_finite(const std::vector<Bounds>& in) {
  return std::all_of(in.begin(), in.end(), [](const Bounds& b) { return b.finite; });
}

// Operators whose results are finite for finite inputs -> the range of the results.
const std::map<std::string_view, std::pair<double, double>>& finite_operators() {
  static const std::map<std::string_view, std::pair<double, double>> ops = {{"Tanh", {-1, 1}},
                                                                            {"Sigmoid", {0, 1}},
                                                                            {"Erf", {-1, 1}},
                                                                            {"Sin", {-1, 1}},
                                                                            {"Cos", {-1, 1}},
                                                                            {"Atan", {-1.6, 1.6}},
                                                                            {"HardSigmoid", {0, 1}},
                                                                            {"Softsign", {-1, 1}},
                                                                            {"Sign", {-1, 1}},
                                                                            {"Softmax", {0, 1}},
                                                                            {"Relu", {0, kInf}},
                                                                            {"Softplus", {0, kInf}},
                                                                            {"LogSoftmax", {-kInf, 0}},
                                                                            {"LeakyRelu", {-kInf, kInf}},
                                                                            {"Elu", {-kInf, kInf}},
                                                                            {"Selu", {-kInf, kInf}},
                                                                            {"Celu", {-kInf, kInf}},
                                                                            {"HardSwish", {-kInf, kInf}},
                                                                            {"Swish", {-kInf, kInf}},
                                                                            {"Mish", {-kInf, kInf}},
                                                                            {"Gelu", {-kInf, kInf}},
                                                                            {"GeluTanh", {-kInf, kInf}},
                                                                            {"ThresholdedRelu", {-kInf, kInf}},
                                                                            {"Shrink", {-kInf, kInf}},
                                                                            {"PRelu", {-kInf, kInf}},
                                                                            {"Asinh", {-kInf, kInf}},
                                                                            {"MatMul", {-kInf, kInf}},
                                                                            {"DequantizeMatrix", {-kInf, kInf}},
                                                                            {"MatMulGelu", {-kInf, kInf}},
                                                                            {"Conv", {-kInf, kInf}},
                                                                            {"BatchNorm", {-kInf, kInf}},
                                                                            {"BatchNormTrain", {-kInf, kInf}},
                                                                            {"CumSum", {-kInf, kInf}},
                                                                            {"AveragePool", {-kInf, kInf}},
                                                                            {"MaxPool", {-kInf, kInf}},
                                                                            {"ReduceProd", {-kInf, kInf}},
                                                                            {"Sub", {-kInf, kInf}}};
  return ops;
}

// Returns whether the operator only moves, selects or converts elements of its first input.
bool moves_elements(std::string_view op) {
  static const std::set<std::string_view> ops = {"Reshape",   "Detach",    "Transpose",      "Expand",
                                                 "Slice",     "Split",     "GatherElements", "Cast",
                                                 "ReduceMax", "ReduceMin", "GatherRows"};
  return ops.count(op) != 0;
}

Bounds divided(const Bounds& a, const Bounds& b) {
  if (!b.positive()) return {};
  return product(a, {1 / b.hi, 1 / b.lo, true});
}

Bounds power(const Bounds& x, const Bounds& e) {
  if (!x.finite || e.lo != e.hi) return {};
  const bool whole = e.lo == std::floor(e.lo);
  if (e.lo < 0 ? !x.positive() : (!whole && x.lo < 0)) return {};
  const bool even = whole && std::fmod(e.lo, 2) == 0;
  return finite_between(even || x.lo >= 0 ? 0 : -kInf, kInf);
}

Bounds clipped(const Node& n, const Bounds& x) {
  if (!x.finite && !x.below) return {};
  const double lo = n.attrs.has("min") ? n.attrs.f("min", 0) : -kInf;
  const double hi = n.attrs.has("max") ? n.attrs.f("max", 0) : kInf;
  Bounds out = finite_between(std::clamp(x.lo, lo, std::max(lo, hi)), std::clamp(x.hi, lo, std::max(lo, hi)));
  out.finite = x.finite || std::isfinite(lo);
  out.below = !out.finite;
  return out;
}

// Returns the bounds of FusedAttention. A row is NaN if a mask of -inf hides all of its keys. Only a mask that depends
// on the query can do that, because each sequence has a token.
Bounds attended(const Graph& g, const Node& n, const std::vector<Bounds>& in) {
  for (size_t i = 0; i < 3 && i < in.size(); ++i) {
    if (!in[i].finite) return {};
  }
  const bool masked = n.in.size() > 3 && n.in[3];
  const bool by_query = masked && g.value(n.in[3]).dims.at(2) != 1;
  const bool hides =
      masked && (g.value(n.in[3]).dtype == DType::boolean ? !std::isfinite(n.attrs.f("fill", -1000)) : !in[3].finite);
  if (hides && by_query && n.attrs.i("empty_rows_zero", 0) == 0) return {};
  return finite_between(std::min(in[2].lo, 0.0), std::max(in[2].hi, 0.0));
}

Bounds elementwise(const Node& n, const std::vector<Bounds>& in) {
  const std::string& op = n.op->name;
  Bounds out;
  if (op == "Add") {
    out = {in[0].lo + in[1].lo, in[0].hi + in[1].hi, all_finite(in)};
    if (std::isnan(out.lo)) out.lo = -kInf;
    if (std::isnan(out.hi)) out.hi = kInf;
    out.below = !out.finite && (in[0].finite || in[0].below) && (in[1].finite || in[1].below);
  } else if (op == "Sub" && std::isfinite(in[0].lo + in[1].hi) && std::isfinite(in[0].hi + in[1].lo)) {
    out = {in[0].lo - in[1].hi, in[0].hi - in[1].lo, all_finite(in)};
  } else if (op == "Mul") {
    out = product(in[0], in[1]);
    if (n.in[0] == n.in[1]) out.lo = std::max(out.lo, 0.0);
  } else if (op == "Div") {
    out = divided(in[0], in[1]);
  } else if (op == "Neg") {
    out = {-in[0].hi, -in[0].lo, in[0].finite};
  } else if (op == "Abs") {
    const bool one_sign = in[0].lo >= 0 || in[0].hi <= 0;
    const double a = std::abs(in[0].lo), b = std::abs(in[0].hi);
    out = {one_sign ? std::min(a, b) : 0, std::max(a, b), in[0].finite};
  } else if (op == "Max") {
    out = {std::max(in[0].lo, in[1].lo), std::max(in[0].hi, in[1].hi), all_finite(in)};
  } else if (op == "Min") {
    out = {std::min(in[0].lo, in[1].lo), std::min(in[0].hi, in[1].hi), all_finite(in)};
  } else if (op == "Where") {
    out = in[1].joined(in[2]);
  } else if (op == "Clip") {
    out = clipped(n, in[0]);
  } else if (op == "Sqrt" && in[0].finite && in[0].lo >= 0) {
    out = finite_between(std::sqrt(in[0].lo), std::sqrt(in[0].hi));
  } else if (op == "Log" && in[0].positive()) {
    out = finite_between(std::log(in[0].lo), std::log(in[0].hi));
  } else if (op == "Reciprocal") {
    out = divided(finite_between(1, 1), in[0]);
  } else if (op == "Exp" && in[0].finite && in[0].hi <= kLargestExponent) {
    out = finite_between(std::exp(in[0].lo), std::exp(in[0].hi));
  } else if (op == "Pow") {
    out = power(in[0], in[1]);
  } else if ((op == "Floor" || op == "Ceil" || op == "Round" || op == "RoundStraight") && in[0].finite) {
    out = finite_between(std::floor(in[0].lo), std::ceil(in[0].hi));
  }
  return out;
}

// Returns the smallest and the largest integer. The loop is vectorized, because for each length of a batch this pass
// reads all weights of a quantized model.
template <class T>
Bounds bounds_of_integers(const T* x, int64_t n) {
  T lo = x[0], hi = x[0];
  for (int64_t i = 1; i < n; ++i) {
    lo = std::min(lo, x[i]);
    hi = std::max(hi, x[i]);
  }
  return finite_between(static_cast<double>(lo), static_cast<double>(hi));
}

// Returns the bounds of floats; nullopt if an element is not finite. Floats are compared as integers that have the same
// order; infinity and NaN are then beyond all finite numbers.
std::optional<Bounds> bounds_of_finite(const float* x, int64_t n) {
  const auto ordered = [](int32_t bits) { return bits ^ ((bits >> 31) & 0x7fffffff); };
  int32_t lo = ordered(std::bit_cast<int32_t>(x[0])), hi = lo;
  for (int64_t i = 1; i < n; ++i) {
    const int32_t key = ordered(std::bit_cast<int32_t>(x[i]));
    lo = std::min(lo, key);
    hi = std::max(hi, key);
  }
  const float least = std::bit_cast<float>(ordered(lo)), largest = std::bit_cast<float>(ordered(hi));
  if (!std::isfinite(least) || !std::isfinite(largest)) return std::nullopt;
  return finite_between(least, largest);
}

// Returns the bounds for other types, and for floats of which some are not finite.
Bounds bounds_of_any(const HostTensor& t) {
  std::array<double, 1024> part;
  double lo = kInf, hi = -kInf;
  for (int64_t at = 0, n = 0; at < t.numel(); at += n) {
    n = std::min<int64_t>(part.size(), t.numel() - at);
    convert(t.dtype(), static_cast<const char*>(t.data()) + at * size_of(t.dtype()), DType::f64, part.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      const double x = part[static_cast<size_t>(i)];
      if (std::isnan(x) || x == kInf) return {};
      lo = std::min(lo, x);
      hi = std::max(hi, x);
    }
  }
  const bool finite = std::isfinite(lo);
  return {lo, hi, finite, !finite};
}

}  // namespace

Bounds Bounds::joined(const Bounds& other) const {
  Bounds out{std::min(lo, other.lo), std::max(hi, other.hi), finite && other.finite};
  out.below = !out.finite && (finite || below) && (other.finite || other.below);
  return out;
}

Bounds finite_between(double lo, double hi) { return {lo, hi, true}; }

Bounds bounds_of_constant(const HostTensor& t) {
  if (t.numel() == 0) return finite_between(0, 0);
  if (t.dtype() == DType::f32) {
    if (const auto bounds = bounds_of_finite(t.as<float>(), t.numel())) return *bounds;
  } else if (!is_float(t.dtype())) {
    return with_type(t.dtype(), [&](auto zero) -> Bounds {
      using T = decltype(zero);
      if constexpr (std::is_integral_v<T>) return bounds_of_integers(t.as<T>(), t.numel());
      return {};
    });
  }
  return bounds_of_any(t);
}

Bounds output_bounds(const Graph& g, const Node& n, const std::vector<Bounds>& in) {
  const std::string& op = n.op->name;
  const DType type = g.value(n.out[0]).dtype;
  if (type == DType::boolean) return finite_between(0, 1);
  Bounds out = in.empty() ? Bounds{} : elementwise(n, in);
  if (op == "FusedAttention" && in.size() >= 3) {
    out = attended(g, n, in);
  } else if (op == "LayerNorm") {
    if (all_finite(in) && n.attrs.f("epsilon", 0) > 0) out = finite_between(-kInf, kInf);
  } else if (op == "Dropout" && in[0].finite) {
    out = finite_between(in[0].lo >= 0 ? 0 : -kInf, in[0].hi <= 0 ? 0 : kInf);
  } else if (op == "ReduceSum") {
    out = {in[0].lo >= 0 ? in[0].lo : -kInf, in[0].hi <= 0 ? in[0].hi : kInf, in[0].finite};
  } else if (op == "Concat") {
    out = in[0];
    for (const Bounds& b : in) out = out.joined(b);
  } else if (moves_elements(op)) {
    out = in[0];
  } else if (const auto known = finite_operators().find(op); !out.finite && known != finite_operators().end()) {
    if (all_finite(in)) out = finite_between(known->second.first, known->second.second);
  }
  if (!is_float(type)) out.finite = true;
  return out;
}

}  // namespace amp
