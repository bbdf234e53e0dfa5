// Patterns of decomposed normalizations (units.h). The search starts at a Sqrt or Pow. It goes up to the variance and
// x, then down to the division and the optional scale and bias. TensorFlow's form x * r + (B - mean * r), with r the
// scaled reciprocal of the root, is matched too.
#include <algorithm>

#include "precision/unit_matcher.h"
#include "precision/unit_patterns.h"

namespace amp {

namespace {

using Nodes = std::vector<int>;

// Matches (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * W + B, and the same without means (RMS norm).
class NormPattern {
 public:
  NormPattern(const UnitMatcher& m, int anchor) : m_(m), anchor_(anchor) {}

  bool match(Unit& unit) {
    if (!statistics() || !normalized() || !m_.closed(nodes_, y_)) return false;
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

  // Matches the nodes from x to the Sqrt (or Pow with exponent 0.5 or -0.5), and sets x_ and mean_.
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

  // Returns whether v is the numerator: x for an RMS norm; else x - mean(x), which may be another node than the
  // variance's.
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

  bool normalized() {
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

  // Matches TensorFlow's form x * r + (B - mean * r), where r is the scaled reciprocal of the root.
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
      // Hugging Face's RMSNorm casts back to the input's type before it multiplies by the weight; in a float32 file
      // this Cast changes nothing.
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

}  // namespace

bool match_norm(const UnitMatcher& m, int anchor, Unit& unit) { return NormPattern(m, anchor).match(unit); }

bool match_group_norm(const UnitMatcher& m, int instance_norm, Unit& unit) {
  const auto all = [&](int v, double want) {
    if (v < 0 || !m.graph().values[static_cast<size_t>(v)].data) return false;
    const std::vector<double> d = m.graph().values[static_cast<size_t>(v)].data.to_doubles();
    return std::all_of(d.begin(), d.end(), [&](double e) { return e == want; });
  };
  const int before = m.made_by(m.in(instance_norm, 0), "Reshape"), after = m.only_user(m.out(instance_norm), "Reshape");
  if (before < 0 || after < 0 || !all(m.in(instance_norm, 1), 1) || !all(m.in(instance_norm, 2), 0)) return false;
  Nodes nodes = {before, instance_norm, after};
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

}  // namespace amp
