// Pattern of the nodes that torch.onnx exports for one call of scaled_dot_product_attention (units.h).
#include "precision/unit_matcher.h"
#include "precision/unit_patterns.h"

namespace amp {

namespace {

// Returns whether q and k are both multiplied by the same factor before their product. The factor is the square root of
// attention's scale: equal constants, or Sqrt of the same value.
bool same_factor(const UnitMatcher& m, int a, int b) {
  if (a >= 0 && a == b) return true;
  if (const std::optional<double> s = m.scalar(a); s && *s > 0) return m.is_scalar(b, *s);
  const int x = m.made_by(a, "Sqrt"), y = m.made_by(b, "Sqrt");
  return x >= 0 && y >= 0 && m.in(x, 0) == m.in(y, 0);
}

// Returns the operand of a Mul that is a scalar or the result of a Sqrt; -1 if neither operand is.
int factor_of(const UnitMatcher& m, int mul) {
  for (const size_t i : {1, 0}) {
    const int v = m.in(mul, i);
    if (m.scalar(v) || m.made_by(v, "Sqrt") >= 0) return v;
  }
  return -1;
}

}  // namespace

bool match_attention(const UnitMatcher& m, int softmax, Unit& unit) {
  // Matches the nodes before the Softmax: the product of the scaled q and k, and an optional mask.
  int scores = m.in(softmax, 0);
  const int add = m.made_by(scores, "Add");
  int mask = -1;
  if (add >= 0) {
    const size_t left = m.made_by(m.in(add, 0), "MatMul") >= 0 ? 0 : 1;
    scores = m.in(add, left);
    mask = m.in(add, 1 - left);
    if (m.only_user(m.out(add), "Softmax") != softmax || m.only_user(scores, "Add") != add) return false;
  }
  const int product = m.made_by(scores, "MatMul");
  const int q = m.made_by(m.in(product, 0), "Mul"), k = m.made_by(m.in(product, 1), "Mul");
  if (product < 0 || q < 0 || k < 0 || !same_factor(m, factor_of(m, q), factor_of(m, k))) return false;
  if (m.only_user(m.out(q), "MatMul") != product || m.only_user(m.out(k), "MatMul") != product) return false;

  // Matches the nodes after the Softmax: an optional NaN guard, and the product with v.
  std::vector<int> nodes = {q, k, product, softmax};
  int weights = m.out(softmax);
  bool guarded = false;
  if (m.users(weights).size() == 2) {  // the second reader replaces the NaN of fully masked rows by 0
    for (const int n : m.users(weights)) {
      const int where = m.node(n).op == "IsNaN" ? m.only_user(m.out(n), "Where") : -1;
      if (where < 0 || m.in(where, 0) != m.out(n) || m.in(where, 2) != weights || m.scalar(m.in(where, 1)) != 0.0)
        continue;
      nodes.insert(nodes.end(), {n, where});
      weights = m.out(where);
      guarded = true;
      break;
    }
  }
  const int mix = m.only_user(weights, "MatMul");
  if (mix < 0 || m.in(mix, 0) != weights || (mask >= 0 && !guarded)) return false;
  nodes.push_back(mix);
  if (add >= 0) nodes.push_back(add);
  // scaled_dot_product_attention of PyTorch takes a Boolean mask. A Where converts it to numbers. If several calls use
  // the mask, the Where is assigned to the first one.
  const int where = m.made_by(mask, "Where");
  if (where >= 0 && m.users(mask)[0] == add && m.scalar(m.in(where, 1)) == 0.0 && m.scalar(m.in(where, 2))) {
    bool adds = true;
    for (const int n : m.users(mask)) adds = adds && m.node(n).op == "Add";
    if (adds) nodes.push_back(where);
  }
  unit = {"Attention", nodes, m.in(q, 0) == factor_of(m, q) ? m.in(q, 1) : m.in(q, 0), m.out(mix)};
  return true;
}

}  // namespace amp
