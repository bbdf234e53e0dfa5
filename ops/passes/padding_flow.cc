// Abstract interpretation of padded positions (padding_flow.h). PlaceValues computes which numbers are known there.
// Rule computes the Reach of a node's output from those of the inputs. Operators without a rule count as mixing
// positions.

#include "ops/passes/padding_flow.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "backend/functors.h"
#include "graph/op.h"
#include "ops/passes/hidden_score.h"

namespace amp {
namespace {

int64_t product(const Dims& d, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < to; ++i) n *= d[i];
  return n;
}

// Returns the form of y, a reshape of x in form f. Returns nullopt if y does not keep batch, length and the product of
// the dims between them.
std::optional<TokenForm> reshaped(const Dims& x, const Dims& y, TokenPlaces p, TokenForm f) {
  const int64_t between = f.flat ? 1 : product(x, 1, f.axis);
  for (size_t k = 1; k < y.size(); ++k) {
    const TokenForm to{k, false};
    if (p.has_form(y, to) && product(y, 1, k) == between) return to;
  }
  const TokenForm flat{1, true};
  if (between == 1 && p.has_form(y, flat)) return flat;
  return std::nullopt;
}

std::optional<TokenForm> transposed(const std::vector<int64_t>& perm, TokenForm f) {
  if (perm.empty() || perm[0] != 0) return std::nullopt;
  if (f.flat) return f;
  const auto to = std::find(perm.begin(), perm.end(), static_cast<int64_t>(f.axis)) - perm.begin();
  return TokenForm{static_cast<size_t>(to), false};
}

bool whole_axis(const Node& n, const Dims& x, const Dims& y, size_t axis) {
  return y[axis] == x[axis] && n.attrs.ints("starts")[axis] == 0 && n.attrs.ints("steps")[axis] == 1;
}

std::optional<TokenForm> reduced(const Node& n, TokenForm f) {
  TokenForm to = f;
  for (const int64_t axis : n.attrs.ints("axes")) {
    if (axis == 0 || (!f.flat && axis == static_cast<int64_t>(f.axis))) return std::nullopt;
    if (!f.flat && axis < static_cast<int64_t>(f.axis) && n.attrs.i("keepdims", 1) == 0) --to.axis;
  }
  return to;
}

bool is_reduction(const Node& n) { return n.op->name.starts_with("Reduce") && n.in.size() == 1; }

}  // namespace

bool TokenPlaces::has_form(const Dims& d, TokenForm f) const {
  if (f.flat) return !d.empty() && d[0] == count();
  return d.size() > f.axis && d[0] == batch && d[f.axis] == length;
}

bool is_elementwise(const Node& n) {
  return n.out.size() == 1 && (n.op->infer == infer_broadcast || n.op->infer == infer_compare ||
                               n.op->name == "Where" || n.op->name == "Cast" || find_functor(n.op->name) != nullptr);
}

std::optional<TokenForm> output_form(const Graph& g, const Node& n, TokenPlaces p, TokenForm f) {
  const std::string& op = n.op->name;
  const Dims &x = g.value(n.in[0]).dims, &y = g.value(n.out[0]).dims;
  std::optional<TokenForm> to;
  if (op == "Reshape") {
    to = reshaped(x, y, p, f);
  } else if (op == "Transpose") {
    to = transposed(n.attrs.ints("perm"), f);
  } else if (op == "Expand") {
    if (x.size() == y.size()) to = f;
  } else if (op == "Slice") {
    if (whole_axis(n, x, y, 0) && (f.flat || whole_axis(n, x, y, f.axis))) to = f;
  } else if (is_reduction(n)) {
    to = reduced(n, f);
  }
  if (to && !p.has_form(y, *to)) to.reset();
  return to;
}

// ---- Values at padded positions

PlaceValues::PlaceValues(const Graph& g, const Evaluator& evaluator, TokenPlaces p,
                         const std::map<int32_t, Known>& given)
    : g_(g), evaluate_(evaluator), places_(p), known_(static_cast<size_t>(g.n_values())), bounds_(known_.size()) {
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    Bounds& b = bounds_[static_cast<size_t>(i)];
    if (v.kind == ValueKind::constant) {
      known_[static_cast<size_t>(i)] = constant(v.constant);
      b = bounds_of_constant(v.constant);
    }
    if (v.kind == ValueKind::param || v.kind == ValueKind::input) b = finite_between(-Bounds::kInf, Bounds::kInf);
    const auto found = given.find(i);
    if (found == given.end() || !p.has_form(v.dims, found->second.form)) continue;
    const Known& k = found->second;
    known_[static_cast<size_t>(i)] = k;
    if (k.real && k.padded) b = finite_between(std::min(*k.real, *k.padded), std::max(*k.real, *k.padded));
  }
  for (int32_t i = 0; i < g.n_nodes(); ++i) {
    const Node& n = g.node(NodeId{i});
    if (n.op->effect == Effect::pure && n.out.size() == 1 && !n.in.empty() && !at(n.out[0]))
      known_[static_cast<size_t>(n.out[0].index)] = behind(n);
    const Bounds b = bounds_after(n);
    for (const ValueId v : n.out) bounds_[static_cast<size_t>(v.index)] = b;
  }
}

Bounds PlaceValues::bounds_after(const Node& n) const {
  std::vector<Bounds> in;
  for (const ValueId v : n.in) in.push_back(v ? bounds(v) : finite_between(-Bounds::kInf, Bounds::kInf));
  Bounds out = output_bounds(g_, n, in);
  if (sums_tokens(n)) out.lo = *at(n.in[0])->real;
  // The softmax of scores that are masked by -inf is finite, because each row has a token that is not masked.
  if (n.op->name == "Softmax" && in[0].below && at(n.out[0])) out = finite_between(0, 1);
  const Known* k = at(n.out[0]);
  if (k && k->padded && k->uniform && std::isfinite(*k->padded)) out = finite_between(*k->padded, *k->padded);
  return out;
}

// Returns whether n is the sum or maximum of a mask over a sequence, which is at least the mask's value at a token.
bool PlaceValues::sums_tokens(const Node& n) const {
  if (n.op->name != "ReduceSum" && n.op->name != "ReduceMax") return false;
  const Known* k = at(n.in[0]);
  if (!k || k->uniform || k->form.flat || !(k->real.value_or(0) > 0) || !(k->padded.value_or(-1) >= 0)) return false;
  const std::vector<int64_t> axes = n.attrs.ints("axes");
  return std::find(axes.begin(), axes.end(), static_cast<int64_t>(k->form.axis)) != axes.end();
}

const PlaceValues::Known* PlaceValues::at(ValueId v) const {
  if (!v) return nullptr;
  const auto& k = known_[static_cast<size_t>(v.index)];
  return k ? &*k : nullptr;
}

bool PlaceValues::padded_is(ValueId v, TokenForm f, size_t rank, double x) const {
  const Known* k = at(v);
  if (!k || k->padded != x) return false;
  return k->uniform || (k->form == f && g_.value(v).dims.size() == rank);
}

std::optional<PlaceValues::Known> PlaceValues::constant(const HostTensor& t) const {
  constexpr int64_t kLargest = 1 << 18;
  if (t.numel() == 0 || t.numel() > kLargest) return std::nullopt;
  const std::vector<double> v = t.to_doubles();
  if (std::any_of(v.begin(), v.end(), [&](double x) { return x != v[0]; })) return std::nullopt;
  return Known{true, {}, v[0], v[0]};
}

std::optional<PlaceValues::Known> PlaceValues::behind(const Node& n) const {
  if (is_elementwise(n)) return element(n);
  const Known* x = at(n.in[0]);
  if (!x || is_reduction(n)) return std::nullopt;  // a sum over a token's elements is another number than the known one
  if (n.op->name == "Softmax" && !x->uniform && !x->form.flat && x->form.axis + 1 == g_.value(n.in[0]).dims.size() &&
      x->padded.value_or(0) <= kHiddenScore)
    return Known{false, x->form, {}, 0.0};
  const bool moves =
      n.op->name == "Reshape" || n.op->name == "Transpose" || n.op->name == "Expand" || n.op->name == "Slice";
  if (!moves) return std::nullopt;
  if (x->uniform) return *x;
  const auto to = output_form(g_, n, places_, x->form);
  if (!to) return std::nullopt;
  Known y = *x;
  y.form = *to;
  return y;
}

// Evaluates an elementwise node at padded positions, or at tokens, from the numbers known there for the inputs.
std::optional<double> PlaceValues::apply(const Node& n, bool padded) const {
  const auto number = [&](size_t i) {
    return at(n.in[i]) ? (padded ? at(n.in[i])->padded : at(n.in[i])->real) : std::nullopt;
  };
  const std::string& op = n.op->name;
  if (op == "Where") {
    const auto which = number(0);
    return which ? number(*which != 0 ? 1 : 2) : std::nullopt;
  }
  // 0 times any finite number is 0.
  if (op == "Mul" || op == "And") {
    if ((number(0) == 0.0 && bounds(n.in[1]).finite) || (number(1) == 0.0 && bounds(n.in[0]).finite)) return 0.0;
  }
  if (op == "Div" && number(0) == 0.0 && !number(1) && bounds(n.in[1]).positive()) return 0.0;
  std::vector<HostTensor> in;
  for (size_t i = 0; i < n.in.size(); ++i) {
    const auto x = n.in[i] ? number(i) : std::nullopt;
    if (!x) return std::nullopt;
    in.push_back(HostTensor::of<double>({1}, {*x}).cast(g_.value(n.in[i]).dtype));
  }
  return evaluate_(*n.op, in, n.attrs, {{g_.value(n.out[0]).dtype, {1}}}).at(0).to_doubles().at(0);
}

std::optional<PlaceValues::Known> PlaceValues::element(const Node& n) const {
  const Dims& y = g_.value(n.out[0]).dims;
  Known out{true, {}, {}, {}};
  for (const ValueId v : n.in) {
    const Known* k = at(v);
    if (!k || k->uniform) continue;
    if (g_.value(v).dims.size() != y.size() || (!out.uniform && !(out.form == k->form))) return std::nullopt;
    out.uniform = false;
    out.form = k->form;
  }
  if (!out.uniform && !places_.has_form(y, out.form)) return std::nullopt;
  out.real = apply(n, false);
  out.padded = apply(n, true);
  if (!out.padded || (out.uniform && !out.real)) return std::nullopt;
  return out;
}

// ---- Reach: how values depend on padding

namespace {

constexpr Reach kMixed{Reach::mixed, {}};

class Rule {
 public:
  Rule(const Graph& g, const Node& n, TokenPlaces p, const std::vector<ReachedInput>& in, const PlaceValues& known,
       bool hides)
      : g_(g), n_(n), p_(p), known_(known), hides_(hides) {
    for (const ReachedInput& i : in) {
      in_.push_back(i.reach);
      finite_.push_back(i.finite);
    }
  }

  Reach apply() {
    const std::string& op = n_.op->name;
    size_t first = in_.size();
    for (size_t i = in_.size(); i-- > 0;) {
      if (in_[i].kind == Reach::mixed) return kMixed;
      if (in_[i].kind == Reach::token) first = i;
    }
    if (first == in_.size()) return {};
    f_ = in_[first].form;
    if (is_elementwise(n_)) return elements();
    if (op == "MatMul") return product();
    if (op == "FusedAttention") return attention();
    if (op == "Concat") return concat();
    if (op == "CrossEntropy") return cross_entropy();
    if (first != 0 || !others_clean()) return kMixed;
    if (op == "Slice" && first_token()) return {};
    if (op == "GatherRows") return gather();
    if (op == "Split") return axis_is_tokens(n_.attrs.i("axis", 0)) ? kMixed : in_[0];
    if (op == "Softmax" || op == "LogSoftmax")
      return axis_is_tokens(static_cast<int64_t>(dims(0).size()) - 1) ? kMixed : in_[0];
    if (op == "LayerNorm") return norm();
    if (op == "GatherElements")
      return axis_is_tokens(n_.attrs.i("axis", 0)) || !p_.has_form(result(), f_) ? kMixed : in_[0];
    if (op == "Dropout" || op == "BatchNorm") return in_[0];  // BatchNorm with constant statistics
    const auto to = output_form(g_, n_, p_, f_);
    return to ? Reach{Reach::token, *to} : kMixed;
  }

 private:
  const Dims& dims(size_t i) const { return g_.value(n_.in[i]).dims; }
  const Dims& result() const { return g_.value(n_.out[0]).dims; }
  bool axis_is_tokens(int64_t axis) const { return axis == 0 || (!f_.flat && axis == static_cast<int64_t>(f_.axis)); }
  bool others_clean() const {
    return std::all_of(in_.begin() + 1, in_.end(), [](const Reach& r) { return r.kind == Reach::clean; });
  }

  // Rule for elementwise nodes. The result is clean if Mul, And, Or or Where with a mask removes padded values.
  Reach elements() const {
    const size_t rank = result().size();
    if (!p_.has_form(result(), f_)) return kMixed;
    for (size_t i = 0; i < in_.size(); ++i) {
      if (in_[i].kind == Reach::token && (!(in_[i].form == f_) || dims(i).size() != rank)) return kMixed;
    }
    const auto padded_is = [&](size_t i, double x) {
      return in_[i].kind == Reach::clean && known_.padded_is(n_.in[i], f_, rank, x);
    };
    const std::string& op = n_.op->name;
    if ((op == "Mul" || op == "And") && ((padded_is(0, 0) && finite_[1]) || (padded_is(1, 0) && finite_[0]))) return {};
    if (op == "Or" && (padded_is(0, 1) || padded_is(1, 1))) return {};
    // A Where hides padded values. They must be finite, so that their gradient, a product with 0, is 0.
    if (op == "Where" && (in_[1].kind == Reach::clean || finite_[1]) && (in_[2].kind == Reach::clean || finite_[2]) &&
        in_[0].kind == Reach::clean &&
        ((padded_is(0, 0) && in_[2].kind == Reach::clean) || (padded_is(0, 1) && in_[1].kind == Reach::clean)))
      return {};
    return {Reach::token, f_};
  }

  // Rule for MatMul. If the tokens are rows or batch entries of the left operand, they are also the result's. If tokens
  // are summed with weights that are 0 at padded positions, the result is clean. Otherwise it is mixed.
  Reach product() const {
    const size_t rank = dims(0).size();
    const bool ta = n_.attrs.i("transA", 0) != 0, tb = n_.attrs.i("transB", 0) != 0;
    if (in_.size() > 2 && in_[2].kind != Reach::clean) return kMixed;
    if (in_[0].kind == Reach::token && in_[1].kind == Reach::clean) {
      const size_t rows = ta ? rank - 1 : rank - 2, inner = ta ? rank - 2 : rank - 1;
      if (f_.flat) return rank == 2 && rows == 0 && p_.has_form(result(), f_) ? Reach{Reach::token, f_} : kMixed;
      if (rank < 2 || result().size() != rank) return kMixed;
      if (f_.axis == inner)
        return finite_[0] && weighs(1, tb ? dims(1).size() - 1 : dims(1).size() - 2) ? Reach{} : kMixed;
      const TokenForm to{f_.axis == rows ? rank - 2 : f_.axis, false};
      return p_.has_form(result(), to) ? Reach{Reach::token, to} : kMixed;
    }
    if (in_[1].kind == Reach::token && in_[0].kind == Reach::clean) {
      const size_t inner = dims(1).size() - (tb ? 1 : 2);
      return !f_.flat && f_.axis == inner && finite_[1] && weighs(0, ta ? rank - 2 : rank - 1) ? Reach{} : kMixed;
    }
    return kMixed;
  }
  // Returns whether operand i, whose token axis is `inner`, is 0 at padded positions.
  bool weighs(size_t i, size_t inner) const { return known_.padded_is(n_.in[i], {inner, false}, dims(i).size(), 0); }

  // Rule for FusedAttention. The mask must hide padded keys from token queries. If it has a query axis, padded queries
  // may attend to padded keys, so the result depends on padding at padded positions.
  Reach attention() const {
    const bool heads_first = n_.attrs.i("heads_first", 0) != 0;
    const TokenForm tokens{heads_first ? size_t{2} : size_t{1}, false};
    if (n_.attrs.i("packed", 0) != 0 || in_.size() < 3) return kMixed;
    for (size_t i = 0; i < in_.size(); ++i) {
      if (in_[i].kind == Reach::token && (i > 2 || !(in_[i].form == tokens))) return kMixed;
    }
    const bool keys = in_[1].kind == Reach::token || in_[2].kind == Reach::token;
    if (keys && !hides_) return kMixed;
    const bool by_query = keys && dims(3)[2] != 1;
    if (in_[0].kind != Reach::token && !by_query) return {};
    return p_.has_form(result(), tokens) ? Reach{Reach::token, tokens} : kMixed;
  }

  Reach concat() const {
    if (axis_is_tokens(n_.attrs.i("axis", 0))) return kMixed;
    for (size_t i = 0; i < in_.size(); ++i) {
      if (in_[i].kind == Reach::token && !(in_[i].form == f_)) return kMixed;
    }
    return p_.has_form(result(), f_) ? Reach{Reach::token, f_} : kMixed;
  }

  // Rule for CrossEntropy. The result is clean if all labels at padded positions are ignored.
  Reach cross_entropy() const {
    const auto ignored = static_cast<double>(n_.attrs.i("ignore_index", -100));
    const bool rows = f_.flat && in_[0].kind == Reach::token && others_clean();
    return rows && known_.padded_is(n_.in[1], f_, 1, ignored) ? Reach{} : kMixed;
  }

  // Returns whether the node is a slice of position 0, which is a token in every sequence.
  bool first_token() const {
    return !f_.flat && whole_axis(n_, dims(0), result(), 0) && result()[f_.axis] == 1 &&
           n_.attrs.ints("starts")[f_.axis] == 0;
  }

  Reach gather() const {
    const int64_t outer = n_.attrs.i("outer", 1), n = n_.attrs.i("n", 1);
    size_t axis = 0;
    while (axis < dims(0).size() && (product_to(axis) != outer || dims(0)[axis] != n)) ++axis;
    if (axis == dims(0).size() || axis == 0 || f_.flat) return kMixed;
    if (axis == f_.axis) return zeros(n_.in[1]) ? Reach{} : kMixed;
    TokenForm to = f_;
    if (axis < f_.axis) to.axis = f_.axis - 1 + dims(1).size();
    return p_.has_form(result(), to) ? Reach{Reach::token, to} : kMixed;
  }
  int64_t product_to(size_t axis) const {
    int64_t size = 1;
    for (size_t i = 0; i < axis; ++i) size *= dims(0)[i];
    return size;
  }
  bool zeros(ValueId v) const {
    const PlaceValues::Known* k = known_.at(v);
    return k && k->uniform && k->padded == 0.0;
  }

  Reach norm() const {
    const int64_t n = n_.attrs.i("n", 1);
    int64_t inner = 1;
    for (size_t d = f_.flat ? 1 : f_.axis + 1; d < dims(0).size(); ++d) inner *= dims(0)[d];
    return inner % n == 0 ? in_[0] : kMixed;
  }

  const Graph& g_;
  const Node& n_;
  const TokenPlaces p_;
  std::vector<Reach> in_;
  std::vector<bool> finite_;
  const PlaceValues& known_;
  const bool hides_;
  TokenForm f_;
};

}  // namespace

Reach output_reach(const Graph& g, const Node& n, TokenPlaces p, const std::vector<ReachedInput>& in,
                   const PlaceValues& known, bool hides) {
  return Rule(g, n, p, in, known, hides).apply();
}

}  // namespace amp
