// Patterns of decomposed activations (units.h): GELU with erf and with tanh, in the operand orders of PyTorch,
// TensorFlow and PaddlePaddle; and Softplus. A function that matches collects the nodes and requires that values inside
// the pattern have no other readers.
#include <algorithm>
#include <cmath>

#include "precision/unit_matcher.h"
#include "precision/unit_patterns.h"

namespace amp {

namespace {

using Nodes = std::vector<int>;

// Matches the product of x, t and 0.5 in any order, where t is 1 + erf(..) or 1 + tanh(..). Appends its nodes and sets
// y to the result.
bool gelu_product(const UnitMatcher& m, int x, int t, Nodes& nodes, int& y) {
  const int first = m.only_user(t, "Mul");
  if (first < 0) return false;
  nodes.push_back(first);
  y = m.out(first);
  const int o = m.other(first, t);
  const bool half = m.is_scalar(o, 0.5);
  if (!half && o != x) {  // the form (x * 0.5) * t
    const int mul = m.made_by(o, "Mul");
    if (mul < 0 || m.beside_scalar(mul, 0.5) != x) return false;
    nodes.push_back(mul);
    return true;
  }
  const int second = m.only_user(y, "Mul");  // the form (x * t) * 0.5 or x * (0.5 * t)
  if (second < 0 || (half ? m.other(second, y) != x : m.beside_scalar(second, 0.5) != y)) return false;
  nodes.push_back(second);
  y = m.out(second);
  return true;
}

// If v is x^2 or x^3, as Pow or as products, appends the nodes and returns x. Otherwise returns -1.
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

// Matches 0.79788 * (x + 0.044715 x^3), or 0.79788 * x * (1 + 0.044715 x^2). Appends the nodes and sets x. (0.79788 is
// the square root of 2 / pi.)
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

}  // namespace

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

// Matches Where(x > 20, x, Softplus(x)): PyTorch's softplus with its threshold of 20.
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

// Matches Log(1 + Exp(x)).
bool match_softplus_log(const UnitMatcher& m, int log, Unit& unit) {
  const int add = m.made_by(m.in(log, 0), "Add");
  const int exp = m.made_by(m.beside_scalar(add, 1), "Exp");
  if (exp < 0) return false;
  const Nodes nodes = {exp, add, log};
  if (!m.closed(nodes, m.out(log))) return false;
  unit = {"Softplus", nodes, m.in(exp, 0), m.out(log)};
  return true;
}

}  // namespace amp
