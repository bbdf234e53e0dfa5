// Two passes over the imported graph. The forward pass computes the floor of each value: a lower bound of its magnitude
// that a constant guarantees. Floors pass through operators that move elements, add, take the maximum, multiply or take
// a root. The backward pass finds the floors that reach an operator whose result or gradient is not finite at 0. A node
// on such a path stays fp32 if `low` would lose a floor that the node reads or produces. The reciprocal of such a floor
// is beyond fp16's range, so nodes that multiply by the reciprocal stay fp32 too.
#include "precision/epsilon.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "base/cat.h"
#include "base/text.h"
#include "precision/range.h"

namespace amp {

double rounded(double v, DType low) {
  const auto f = static_cast<float>(v);
  if (low == DType::f16) return Half::decode(Half::encode(f));
  if (low == DType::bf16) return BFloat16::decode(BFloat16::encode(f));
  return f;
}

bool is_lost(double x, DType low) { return std::abs(rounded(x, low) - x) > 0.01 * std::abs(x); }

namespace {

using Names = std::set<std::string_view>;

struct Floor {
  double least = 0;  // lower bound of the magnitude; 0: none
  // A small floor has a reciprocal beyond fp16's range. If the value is such a reciprocal, its largest magnitude;
  // else 0.
  double most = 0;
  bool constant = false;  // whether it is computed from constants only
  std::string why;
};

// Operators whose result keeps a floor of an operand: they move elements or combine them.
const Names kCarries = {"Expand",
                        "Unsqueeze",
                        "Squeeze",
                        "Tile",
                        "Reshape",
                        "Flatten",
                        "Concat",
                        "Identity",
                        "Cast",
                        "CastLike",
                        "Transpose",
                        "Slice",
                        "Split",
                        "Gather",
                        "GatherElements",
                        "GatherND",
                        "Pad",
                        "Abs",
                        "Neg",
                        "Relu",
                        "ReduceSum",
                        "ReduceMean",
                        "ReduceMax",
                        "ReduceMin",
                        "ReduceL1",
                        "ReduceL2",
                        "Sum",
                        "Mean",
                        "Add",
                        "Sub",
                        "Max",
                        "Min",
                        "Clip",
                        "Where",
                        "Dropout",
                        "MaxPool",
                        "GlobalAveragePool",
                        "AveragePool",
                        "GlobalMaxPool"};

// Returns the value that all elements have; nullopt if they differ.
std::optional<double> uniform(const HostTensor& t) {
  constexpr int64_t kLargest = 1 << 16;
  if (!t || !is_float(t.dtype()) || t.numel() == 0 || t.numel() > kLargest) return std::nullopt;
  const std::vector<double> v = t.to_doubles();
  if (std::any_of(v.begin(), v.end(), [&](double x) { return x != v[0]; })) return std::nullopt;
  return v[0];
}

class EpsilonFlow {
 public:
  EpsilonFlow(const SourceGraph& g, const std::vector<char>& skip, DType low)
      : g_(g), skip_(skip), low_(low), floors_(g.values.size()), needed_(g.values.size(), 0) {}

  std::map<int, std::string> run() {
    for (size_t v = 0; v < g_.values.size(); ++v) constant(v);
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      if (skip_[i]) continue;
      const Floor f = behind(g_.nodes[i]);
      for (const int o : g_.nodes[i].outputs) {
        if (o >= 0) floors_[static_cast<size_t>(o)] = f;
      }
    }
    for (size_t i = g_.nodes.size(); i-- > 0;) visit(static_cast<int>(i));
    return std::move(out_);
  }

 private:
  const Floor& floor(int v) const {
    static const Floor none;
    return v < 0 ? none : floors_[static_cast<size_t>(v)];
  }
  std::optional<double> number(const SourceNode& n, size_t k) const {
    if (k >= n.inputs.size() || n.inputs[k] < 0) return std::nullopt;
    return uniform(g_.value(n.inputs[k]).data);
  }
  std::string shown(const std::string& name, double x) const {
    return cat("constant '", printable(name), "' = ", x, " keeps its result from 0 and would be ", rounded(x, low_),
               " in ", name_of(low_));
  }

  void constant(size_t v) {
    const SourceValue& value = g_.values[v];
    const bool scalar_weight = value.kind == SourceKind::parameter && value.data.numel() == 1;
    if (value.kind != SourceKind::constant && !scalar_weight) return;
    const std::optional<double> x = uniform(value.data);
    if (!x || *x == 0 || !std::isfinite(*x)) return;
    floors_[v] = {std::abs(*x), 0, true, shown(value.name, *x)};
  }

  // Returns the floor of a node that moves or combines elements. It is the largest floor of the operands for operators
  // that add or take the maximum, and the smallest for other operators. Operands without a floor are left out.
  Floor combined(const SourceNode& n) const {
    Floor out;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if ((n.op == "Where" && k == 0) || (n.op == "Clip" && k == 2) || (n.op == "Gather" && k > 0)) continue;
      const Floor& f = floor(n.inputs[k]);
      out.most = std::max(out.most, f.most);
      if (f.most > 0) out.why = f.why;
      if (f.least == 0) continue;
      const bool adds = n.op == "Add" || n.op == "Sum" || n.op == "Max" || n.op == "Clip";
      const bool smaller = out.least == 0 || (adds ? f.least > out.least : f.least < out.least);
      if (!smaller) continue;
      out.least = f.least;
      out.why = f.why;
    }
    if (n.op == "Clip" && n.attrs.has("min")) {
      const double x = std::abs(n.attrs.f("min", 0));
      if (x > out.least)
        out = {x, 0, false, cat("its lower bound ", x, " would be ", rounded(x, low_), " in ", name_of(low_))};
    }
    if (out.least > 0 && n.op != "Clip") out.constant = all_constant(n);
    return out;
  }
  bool all_constant(const SourceNode& n) const {
    return std::all_of(n.inputs.begin(), n.inputs.end(),
                       [&](int v) { return v < 0 || floor(v).constant || g_.value(v).kind == SourceKind::constant; });
  }

  Floor product(const SourceNode& n) const {
    const Floor &a = floor(n.inputs[0]), &b = floor(n.inputs[1]);
    if (a.most > 0 || b.most > 0) return {};  // for example, x times the reciprocal of its norm
    if (a.least == 0 && b.least == 0) return {};
    const double least = (a.least == 0 ? 1 : a.least) * (b.least == 0 ? 1 : b.least);
    // If only one factor has a floor, that factor must not be a constant: the other factor is data, which may be 0, so
    // the product has no floor.
    if (a.least == 0 || b.least == 0) {
      const Floor& f = a.least == 0 ? b : a;
      if (f.constant) return {};
      return {least, 0, false, f.why};
    }
    return {least, 0, a.constant && b.constant, a.least <= b.least ? a.why : b.why};
  }

  Floor inverse(double by, const Floor& f) const {
    if (f.least == 0 || by == 0) return {};
    const double most = std::abs(by) / f.least;
    if (low_ == DType::f16 && most > kMaxHalf) return {0, most, false, f.why};
    return {};
  }

  Floor behind(const SourceNode& n) const {
    if (!n.domain.empty() || n.inputs.empty()) return {};
    if (kCarries.count(n.op)) return combined(n);
    const Floor& x = floor(n.inputs[0]);
    if (n.op == "Mul" && n.inputs.size() == 2) return product(n);
    if (n.op == "Sqrt" && x.least > 0) return {std::sqrt(x.least), 0, x.constant, x.why};
    if (n.op == "Reciprocal") return inverse(1, x);
    if (n.op == "Pow" && x.least > 0) {
      const std::optional<double> e = number(n, 1);
      if (!e) return {};
      return *e > 0 ? Floor{std::pow(x.least, *e), 0, x.constant, x.why}
                    : inverse(1, {std::pow(x.least, -*e), 0, false, x.why});
    }
    if (n.op != "Div" || n.inputs.size() != 2) return {};
    if (const std::optional<double> by = number(n, 0)) return inverse(*by, floor(n.inputs[1]));
    const std::optional<double> by = number(n, 1);
    if (by && *by != 0 && x.least > 0) return {x.least / std::abs(*by), 0, false, x.why};
    return {};
  }

  // Returns whether the operator has no finite result or no finite gradient where its input k is 0.
  bool is_singular(const SourceNode& n, size_t k) const {
    if (n.op == "Div") return k == 1;
    if (n.op == "Pow") return k == 0 && (!number(n, 1) || *number(n, 1) < 1);
    return k == 0 && (n.op == "Reciprocal" || n.op == "Log" || n.op == "Sqrt" || n.op == "ReduceLogSum");
  }
  bool passes_on(const SourceNode& n) const {
    return n.domain.empty() && (kCarries.count(n.op) || n.op == "Mul" || n.op == "Sqrt" || n.op == "Pow" ||
                                (n.op == "Div" && number(n, 1)));
  }
  bool lost(const Floor& f) const { return f.least > 0 && is_lost(f.least, low_); }

  void visit(int node) {
    const SourceNode& n = g_.nodes[static_cast<size_t>(node)];
    if (skip_[static_cast<size_t>(node)] || !n.domain.empty()) return;
    const bool wanted = std::any_of(n.outputs.begin(), n.outputs.end(),
                                    [&](int o) { return o >= 0 && needed_[static_cast<size_t>(o)]; });
    const Floor none, &made = n.outputs.empty() ? none : floor(n.outputs[0]);
    std::string why = wanted && lost(made) ? made.why : made.most > 0 ? made.why : "";
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const Floor& f = floor(n.inputs[k]);
      const bool needs = (is_singular(n, k) && !f.constant) || (wanted && passes_on(n));
      if (n.inputs[k] < 0 || (f.least == 0 && f.most == 0)) continue;
      if (needs) needed_[static_cast<size_t>(n.inputs[k])] = 1;
      if ((needs && lost(f)) || f.most > 0) why = f.why;
    }
    if (!why.empty()) out_[node] = why;
  }

  const SourceGraph& g_;
  const std::vector<char>& skip_;
  const DType low_;
  std::vector<Floor> floors_;  // indexed by value
  std::vector<char> needed_;   // indexed by value: whether the floor reaches an operator that is singular at 0
  std::map<int, std::string> out_;
};

}  // namespace

std::map<int, std::string> epsilon_nodes(const SourceGraph& g, const std::vector<char>& skip, DType low) {
  return EpsilonFlow(g, skip, low).run();
}

}  // namespace amp
