#include "precision/units.h"

#include <algorithm>
#include <cmath>

#include "precision/unit_matcher.h"

namespace amp {

namespace {

using Nodes = std::vector<int>;

// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * W + B, and without the mean.
class NormPattern {
 public:
  NormPattern(const UnitMatcher& m, int anchor) : m_(m), anchor_(anchor) {}

  bool match(Unit& unit) {
    if (!statistics() || !normalised() || !m_.closed(nodes_, y_)) return false;
    affine();
    unit = {mean_ < 0     ? "RMSNormalization"
            : last_axis() ? "LayerNormalization"
                          : "MeanVarianceNormalization",
            nodes_, x_, y_};
    return true;
  }

 private:
  void take(int n) {
    if (std::find(nodes_.begin(), nodes_.end(), n) == nodes_.end()) nodes_.push_back(n);
  }

  // Up from Sqrt (or Pow with exponent 0.5 or -0.5) to x.
  bool statistics() {
    const bool sqrt = m_.node(anchor_).op == "Sqrt";
    inverse_ = !sqrt && m_.is_scalar(m_.in(anchor_, 1), -0.5);
    if (!sqrt && !inverse_ && !m_.is_scalar(m_.in(anchor_, 1), 0.5)) return false;
    const int add = m_.made_by(m_.in(anchor_, 0), "Add");
    if (add < 0) return false;
    int variance = -1;
    for (const size_t i : {1, 0}) {
      const std::optional<double> eps = m_.scalar(m_.in(add, i));
      if (eps && *eps > 0 && *eps < 0.1) variance = m_.in(add, 1 - i);
      if (variance >= 0) break;
    }
    reduce_ = m_.made_by(variance, "ReduceMean");
    if (reduce_ < 0) return false;
    const int pow = m_.made_by(m_.in(reduce_, 0), "Pow"), mul = m_.made_by(m_.in(reduce_, 0), "Mul");
    const int square = pow >= 0 ? pow : mul;
    if (square < 0 || (pow >= 0 ? !m_.is_scalar(m_.in(pow, 1), 2) : m_.in(mul, 0) != m_.in(mul, 1))) return false;
    const int d = m_.in(square, 0);
    x_ = d;
    const int sub = m_.made_by(d, "Sub");
    const int mean = sub < 0 ? -1 : m_.made_by(m_.in(sub, 1), "ReduceMean");
    if (mean >= 0 && m_.in(mean, 0) == m_.in(sub, 0)) {
      mean_ = mean;
      x_ = m_.in(sub, 0);
      take(mean);
      take(sub);
    }
    for (const int n : {square, reduce_, add, anchor_}) take(n);
    return true;
  }

  // v is the numerator: x for RMS, else x - mean(x), whichever node made it.
  bool numerator(int v) {
    if (mean_ < 0) return v == x_;
    const int sub = m_.made_by(v, "Sub");
    if (sub < 0 || m_.in(sub, 0) != x_) return false;
    const int mean = m_.made_by(m_.in(sub, 1), "ReduceMean");
    if (mean < 0 || m_.in(mean, 0) != x_) return false;
    take(mean);
    take(sub);
    return true;
  }

  bool normalised() {
    int r = m_.out(anchor_);
    if (!inverse_) {
      const int div = m_.only_user(r, "Div"), reciprocal = m_.only_user(r, "Reciprocal");
      if (div >= 0 && m_.in(div, 1) == r) {
        take(div);
        if (!m_.is_scalar(m_.in(div, 0), 1)) {
          y_ = m_.out(div);
          return numerator(m_.in(div, 0));
        }
        r = m_.out(div);
      } else if (reciprocal >= 0) {
        take(reciprocal);
        r = m_.out(reciprocal);
      } else {
        return false;
      }
    }
    if (const int mul = m_.only_user(r, "Mul"); mul >= 0) {
      take(mul);
      y_ = m_.out(mul);
      const int o = m_.other(mul, r);
      if (numerator(o)) return true;
      if (!m_.is_weight(o)) return false;
      scaled_ = true;
      r = y_;
      if (const int times = m_.only_user(r, "Mul"); times >= 0) {
        take(times);
        y_ = m_.out(times);
        return numerator(m_.other(times, r));
      }
    }
    return batch_norm_form(r);
  }

  // TensorFlow: x * r + (B - mean * r).
  bool batch_norm_form(int r) {
    if (mean_ < 0 || m_.users(r).size() != 2) return false;
    int by_x = -1, by_mean = -1;
    for (const int n : m_.users(r)) {
      if (m_.node(n).op != "Mul") return false;
      const int o = m_.other(n, r);
      if (o == x_) by_x = n;
      if (const int mean = m_.made_by(o, "ReduceMean"); mean >= 0 && m_.in(mean, 0) == x_) {
        by_mean = n;
        take(mean);
      }
    }
    if (by_x < 0 || by_mean < 0) return false;
    const int sub = m_.only_user(m_.out(by_mean), "Sub"), add = m_.only_user(m_.out(by_x), "Add");
    if (sub < 0 || add < 0 || m_.in(sub, 1) != m_.out(by_mean) || !m_.is_weight(m_.in(sub, 0))) return false;
    if (m_.other(add, m_.out(by_x)) != m_.out(sub)) return false;
    for (const int n : {by_x, by_mean, sub, add}) take(n);
    y_ = m_.out(add);
    shifted_ = true;
    return true;
  }

  void affine() {
    if (shifted_) return;
    int from = y_, cast = -1;
    if (!scaled_) {
      // Hugging Face's RMSNorm casts back before the weight; in a float32 file that is no change.
      if ((cast = m_.only_user(from, "Cast")) >= 0) from = m_.out(cast);
      const int mul = m_.only_user(from, "Mul");
      if (mul < 0 || !m_.is_weight(m_.other(mul, from))) return;
      if (cast >= 0) take(cast);
      take(mul);
      from = y_ = m_.out(mul);
    }
    const int add = mean_ < 0 ? -1 : m_.only_user(from, "Add");
    if (add < 0 || !m_.is_weight(m_.other(add, from))) return;
    take(add);
    y_ = m_.out(add);
  }

  bool last_axis() const {
    const std::vector<int64_t> axes = m_.axes(reduce_);
    if (axes.size() != 1) return false;
    const int64_t rank = m_.rank(x_);
    return axes[0] == -1 || (axes[0] >= 0 && (rank < 0 || axes[0] == rank - 1));
  }

  const UnitMatcher& m_;
  int anchor_, mean_ = -1, reduce_ = -1, x_ = -1, y_ = -1;
  bool inverse_ = false, scaled_ = false, shifted_ = false;
  Nodes nodes_;
};

bool match_group_norm(const UnitMatcher& m, int n, Unit& unit) {
  const auto all = [&](int v, double want) {
    if (v < 0 || !m.graph().values[static_cast<size_t>(v)].data) return false;
    const std::vector<double> d = m.graph().values[static_cast<size_t>(v)].data.to_doubles();
    return std::all_of(d.begin(), d.end(), [&](double e) { return e == want; });
  };
  const int before = m.made_by(m.in(n, 0), "Reshape"), after = m.only_user(m.out(n), "Reshape");
  if (before < 0 || after < 0 || !all(m.in(n, 1), 1) || !all(m.in(n, 2), 0)) return false;
  Nodes nodes = {before, n, after};
  int y = m.out(after);
  if (!m.closed(nodes, y)) return false;
  const int mul = m.only_user(y, "Mul");
  if (mul >= 0 && m.is_weight(m.other(mul, y))) {
    nodes.push_back(mul);
    y = m.out(mul);
    const int add = m.only_user(y, "Add");
    if (add >= 0 && m.is_weight(m.other(add, y))) {
      nodes.push_back(add);
      y = m.out(add);
    }
  }
  unit = {"GroupNormalization", nodes, m.in(before, 0), y};
  return true;
}

// From t = 1 + erf(..) or 1 + tanh(..) down: the product of x, t and 0.5 in any order.
bool gelu_product(const UnitMatcher& m, int x, int t, Nodes& nodes, int& y) {
  const int first = m.only_user(t, "Mul");
  if (first < 0) return false;
  nodes.push_back(first);
  y = m.out(first);
  const int o = m.other(first, t);
  const bool half = m.is_scalar(o, 0.5);
  if (!half && o != x) {  // G3: (x * 0.5) * t
    const int mul = m.made_by(o, "Mul");
    if (mul < 0 || m.beside_scalar(mul, 0.5) != x) return false;
    nodes.push_back(mul);
    return true;
  }
  const int second = m.only_user(y, "Mul");  // G1: (x * t) * 0.5, G2: x * (0.5 * t)
  if (second < 0 || (half ? m.other(second, y) != x : m.beside_scalar(second, 0.5) != y)) return false;
  nodes.push_back(second);
  y = m.out(second);
  return true;
}

bool match_erf_gelu(const UnitMatcher& m, int erf, Unit& unit) {
  const int div = m.made_by(m.in(erf, 0), "Div"), mul = m.made_by(m.in(erf, 0), "Mul");
  int x = -1;
  if (div >= 0 && m.is_scalar(m.in(div, 1), std::sqrt(2.0))) x = m.in(div, 0);
  if (mul >= 0) x = m.beside_scalar(mul, std::sqrt(0.5));
  const int add = m.only_user(m.out(erf), "Add");
  if (x < 0 || add < 0 || m.beside_scalar(add, 1) != m.out(erf)) return false;
  Nodes nodes = {std::max(div, mul), erf, add};
  int y = -1;
  if (!gelu_product(m, x, m.out(add), nodes, y) || !m.closed(nodes, y)) return false;
  unit = {"Gelu", nodes, x, y};
  return true;
}

// v = x^2 or x^3, as Pow or products; returns x, appends the nodes.
int power_of(const UnitMatcher& m, int v, int exponent, Nodes& nodes) {
  if (const int pow = m.made_by(v, "Pow"); pow >= 0 && m.is_scalar(m.in(pow, 1), exponent)) {
    nodes.push_back(pow);
    return m.in(pow, 0);
  }
  const int mul = m.made_by(v, "Mul");
  if (mul < 0) return -1;
  nodes.push_back(mul);
  if (exponent == 2) return m.in(mul, 0) == m.in(mul, 1) ? m.in(mul, 0) : -1;
  for (const size_t i : {0, 1}) {
    Nodes inner;
    const int x = power_of(m, m.in(mul, i), 2, inner);
    if (x < 0 || m.in(mul, 1 - i) != x) continue;
    nodes.insert(nodes.end(), inner.begin(), inner.end());
    return x;
  }
  return -1;
}

// tanh(0.79788 * (x + 0.044715 x^3)), or with x drawn out: tanh(0.79788 * x * (1 + 0.044715 x^2)).
bool tanh_argument(const UnitMatcher& m, int v, Nodes& nodes, int& x) {
  const double root = std::sqrt(2 / std::acos(-1.0));
  const int mul = m.made_by(v, "Mul");
  if (mul < 0) return false;
  nodes.push_back(mul);
  if (const int inner = m.beside_scalar(mul, root); inner >= 0) {
    if (const int add = m.made_by(inner, "Add"); add >= 0) {
      for (const size_t i : {1, 0}) {
        const int term = m.made_by(m.in(add, i), "Mul");
        const int cube = m.beside_scalar(term, 0.044715);
        Nodes power;
        if (cube < 0 || (x = power_of(m, cube, 3, power)) < 0 || x != m.in(add, 1 - i)) continue;
        nodes.insert(nodes.end(), {add, term});
        nodes.insert(nodes.end(), power.begin(), power.end());
        return true;
      }
    }
    return false;
  }
  for (const size_t i : {0, 1}) {
    const int scaled = m.made_by(m.in(mul, i), "Mul"), add = m.made_by(m.in(mul, 1 - i), "Add");
    x = m.beside_scalar(scaled, root);
    const int term = m.made_by(m.beside_scalar(add, 1), "Mul");
    const int square = m.beside_scalar(term, 0.044715);
    Nodes power;
    if (x < 0 || square < 0 || power_of(m, square, 2, power) != x) continue;
    nodes.insert(nodes.end(), {scaled, add, term});
    nodes.insert(nodes.end(), power.begin(), power.end());
    return true;
  }
  return false;
}

bool match_tanh_gelu(const UnitMatcher& m, int tanh, Unit& unit) {
  Nodes nodes = {tanh};
  int x = -1, y = -1;
  if (!tanh_argument(m, m.in(tanh, 0), nodes, x)) return false;
  const int add = m.only_user(m.out(tanh), "Add");
  if (add < 0 || m.beside_scalar(add, 1) != m.out(tanh)) return false;
  nodes.push_back(add);
  if (!gelu_product(m, x, m.out(add), nodes, y) || !m.closed(nodes, y)) return false;
  unit = {"Gelu", nodes, x, y};
  return true;
}

// Where(x > 20, x, Softplus(x)): PyTorch's threshold.
bool match_softplus_where(const UnitMatcher& m, int where, Unit& unit) {
  const int greater = m.made_by(m.in(where, 0), "Greater"), softplus = m.made_by(m.in(where, 2), "Softplus");
  if (greater < 0 || softplus < 0) return false;
  const int x = m.in(where, 1);
  if (m.in(greater, 0) != x || !m.is_scalar(m.in(greater, 1), 20) || m.in(softplus, 0) != x) return false;
  const Nodes nodes = {greater, softplus, where};
  if (!m.closed(nodes, m.out(where))) return false;
  unit = {"Softplus", nodes, x, m.out(where)};
  return true;
}

// Log(1 + Exp(x)).
bool match_softplus_log(const UnitMatcher& m, int log, Unit& unit) {
  const int add = m.made_by(m.in(log, 0), "Add");
  const int exp = m.made_by(m.beside_scalar(add, 1), "Exp");
  if (exp < 0) return false;
  const Nodes nodes = {exp, add, log};
  if (!m.closed(nodes, m.out(log))) return false;
  unit = {"Softplus", nodes, m.in(exp, 0), m.out(log)};
  return true;
}

bool match_at(const UnitMatcher& m, int n, Unit& unit) {
  const SourceNode& node = m.node(n);
  if (!node.domain.empty()) return false;
  if (node.op == "Sqrt" || node.op == "Pow") return NormPattern(m, n).match(unit);
  if (node.op == "InstanceNormalization") return match_group_norm(m, n, unit);
  if (node.op == "Erf") return match_erf_gelu(m, n, unit);
  if (node.op == "Tanh") return match_tanh_gelu(m, n, unit);
  if (node.op == "Where") return match_softplus_where(m, n, unit);
  if (node.op == "Log") return match_softplus_log(m, n, unit);
  return false;
}

template <class Match>
std::vector<Unit> collect(const SourceGraph& g, Match match) {
  const UnitMatcher m(g);
  std::vector<Unit> units;
  std::vector<char> used(g.nodes.size(), 0);
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    Unit unit;
    if (!match(m, static_cast<int>(n), unit)) continue;
    std::sort(unit.nodes.begin(), unit.nodes.end());
    if (std::any_of(unit.nodes.begin(), unit.nodes.end(), [&](int i) { return used[static_cast<size_t>(i)]; }))
      continue;
    for (const int i : unit.nodes) used[static_cast<size_t>(i)] = 1;
    units.push_back(std::move(unit));
  }
  std::sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.nodes[0] < b.nodes[0]; });
  return units;
}

}  // namespace

std::vector<Unit> find_units(const SourceGraph& g) { return collect(g, match_at); }

std::vector<Unit> find_linear(const SourceGraph& g) {
  return collect(g, [](const UnitMatcher& m, int n, Unit& unit) {
    if (m.node(n).op != "MatMul" || !m.node(n).domain.empty() || !m.is_weight(m.in(n, 1))) return false;
    const int add = m.only_user(m.out(n), "Add");
    const int bias = m.other(add, m.out(n));
    if (add < 0 || !m.is_weight(bias) || m.weight_rank(bias) > 1) return false;
    unit = {"Linear", {n, add}, m.in(n, 0), m.out(add)};
    return true;
  });
}

}  // namespace amp
