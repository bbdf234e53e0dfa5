#include "ops/padding.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "ops/compose.h"

namespace amp {

namespace {

// Where a packed value's tokens are. Old dims (batch, .., length, ..) with length at `axis`: new dims have 1 and tokens
// there.
// flat: old dims (batch length, ..), new (tokens, ..).
struct Form {
  size_t axis = 1;
  bool flat = false;
  bool operator==(const Form&) const = default;
};

bool elementwise(const Node& n) {
  static const std::set<std::string> unary = {
      "Abs", "Cast", "Erf",        "Exp",  "Gelu",    "GeluTanh", "HardSigmoid", "HardSwish", "LeakyRelu", "Log",
      "Neg", "Not",  "Reciprocal", "Relu", "Sigmoid", "Softplus", "Sqrt",        "Swish",     "Tanh",      "Elu"};
  return n.op->infer == infer_broadcast || n.op->infer == infer_compare || n.op->name == "Where" ||
         unary.count(n.op->name) != 0;
}

class Packer {
 public:
  Packer(const Graph& g, const PaddingMask& mask, int64_t tokens, const Evaluator& evaluator)
      : g_(g),
        mask_(mask),
        tokens_(tokens),
        plain_(static_cast<size_t>(g.n_values())),
        packed_(plain_.size()),
        form_(plain_.size()),
        b_(out_, evaluator) {}

  Graph run() {
    places_ = out_.add_input("padding.tokens", DType::i64, {tokens_});
    positions_ = out_.add_input("padding.positions", DType::i64, {tokens_});
    samples_ = out_.add_input("padding.samples", DType::i64, {tokens_});
    offsets_ = out_.add_input("padding.offsets", DType::i64, {mask_.batch + 1});
    firsts_ = out_.add_input("padding.firsts", DType::i64, {mask_.batch});
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      const Node& node = g_.node(NodeId{n});
      b_.origin = node.origin;
      if (!try_packed(node)) emit_plain(node);
    }
    for (const auto& o : g_.outputs) out_.outputs.push_back({o.name, plain(o.value)});
    return prune(out_);
  }

 private:
  static size_t at(ValueId v) { return static_cast<size_t>(v.index); }
  const Dims& dims(ValueId v) const { return g_.value(v).dims; }
  bool is_packed(ValueId v) const { return v && packed_[at(v)]; }
  int64_t places() const { return mask_.batch * mask_.length; }

  bool has_form(const Dims& d, Form f) const {
    if (f.flat) return !d.empty() && d[0] == places();
    return d.size() > f.axis && d[0] == mask_.batch && d[f.axis] == mask_.length;
  }
  Dims shape(Dims d, Form f) const {
    d[0] = f.flat ? tokens_ : 1;
    if (!f.flat) d[f.axis] = tokens_;
    return d;
  }
  void set(ValueId old, ValueId made, Form f) {
    check(b_.dims(made) == shape(dims(old), f), "padding removal: a rule made another shape");
    packed_[at(old)] = made;
    form_[at(old)] = f;
  }
  ValueId rows(ValueId table, int64_t n, ValueId indices) {
    return lookup(b_, b_.reshape(table, {n, numel(b_.dims(table)) / n}), indices);
  }

  // The padded tensor, zeros where no token is.
  ValueId plain(ValueId v) {
    if (!v) return {};
    ValueId& to = plain_[at(v)];
    if (to) return to;
    const Value& x = g_.value(v);
    if (x.kind == ValueKind::input) return to = out_.add_input(x.name, x.dtype, x.dims);
    if (x.kind == ValueKind::param) return to = out_.add_param(x.slot, x.name, x.dtype, x.dims);
    if (x.kind == ValueKind::constant) return to = b_.constant(x.constant);
    check(is_packed(v), "padding removal: a value is used before its node");
    const Form f = form_[at(v)];
    ValueId y = packed_[at(v)];
    const std::vector<int64_t> there = f.flat ? std::vector<int64_t>{} : moved(x.dims.size(), f.axis, 1);
    if (!f.flat) y = b_.transpose(y, there);
    Dims d = b_.dims(y);
    const int64_t inner = numel(d) / tokens_;
    const DType type = b_.dtype(y);
    if (!is_float(type)) y = b_.cast(y, DType::f32);  // sums of one element each
    y = b_.op("ScatterRows", {b_.reshape(y, {tokens_, inner}), places_},
              {{"outer", int64_t{1}}, {"n", places()}, {"inner", inner}, {"dims", Dims{places(), inner}}});
    if (!is_float(type)) y = b_.cast(y, type);
    if (f.flat) return to = b_.reshape(y, x.dims);
    d[0] = mask_.batch;
    d[1] = mask_.length;
    return to = b_.transpose(b_.reshape(y, d), moved(x.dims.size(), 1, f.axis));
  }
  // Axis `from` becomes axis `to`, the others keep their order.
  static std::vector<int64_t> moved(size_t rank, size_t from, size_t to) {
    std::vector<int64_t> perm;
    for (size_t d = 0; d < rank; ++d) perm.push_back(static_cast<int64_t>(d));
    perm.erase(perm.begin() + static_cast<std::ptrdiff_t>(from));
    perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(to), static_cast<int64_t>(from));
    return perm;
  }

  // v as an operand beside packed values of this form whose old dims have `rank`: packed, or as it is where it has
  // neither samples nor places; invalid where that cannot be.
  ValueId beside(ValueId v, Form f, size_t rank) {
    if (is_packed(v)) return form_[at(v)] == f && dims(v).size() == rank ? packed_[at(v)] : ValueId{};
    const Dims d = dims(v);
    const size_t shift = rank - d.size();
    const auto extent = [&](size_t axis) { return axis < shift ? 1 : d[axis - shift]; };
    if (f.flat) {
      if (extent(0) == 1) return plain(v);
      return b_.reshape(rows(plain(v), places(), places_), shape(d, f));
    }
    const int64_t samples = extent(0), places = extent(f.axis);
    if (samples == 1 && places == 1) return plain(v);
    for (size_t axis = 1; axis < f.axis; ++axis) {
      if (extent(axis) != 1) return {};  // heads between samples and places
    }
    Dims made = d;
    if (shift == 0) made[0] = 1;
    if (f.axis >= shift) made[f.axis - shift] = tokens_;
    if (f.axis < shift) return {};
    if (samples == 1) return b_.reshape(rows(plain(v), mask_.length, positions_), made);
    if (places == 1) return b_.reshape(rows(plain(v), mask_.batch, samples_), made);
    return b_.reshape(rows(plain(v), this->places(), places_), made);
  }

  void emit_plain(const Node& node) {
    std::vector<ValueId> in;
    for (const ValueId v : node.in) in.push_back(plain(v));
    const std::vector<ValueId> made = b_.ops(node.op->name, std::move(in), node.attrs);
    for (size_t i = 0; i < made.size(); ++i) plain_[at(node.out[i])] = made[i];
  }

  bool try_packed(const Node& node) {
    const std::string& op = node.op->name;
    if (op == "GatherRows") return embedding(node);
    const auto first = std::find_if(node.in.begin(), node.in.end(), [&](ValueId v) { return is_packed(v); });
    if (first == node.in.end()) return false;
    const Form f = form_[at(*first)];
    if (elementwise(node)) return elements(node, f);
    if (!is_packed(node.in[0])) return false;
    if (op == "MatMul") return product(node, f);
    if (op == "LayerNorm") return norm(node, f);
    if (op == "Reshape") return reshape(node, f);
    if (op == "Transpose") return transpose(node, f);
    if (op == "Slice") return slice(node, f);
    if (op == "Concat" || op == "Split" || op == "Softmax" || op == "LogSoftmax") return along_axis(node, f);
    if (op == "Dropout") return dropout(node, f);
    if (op == "FusedAttention") return attention(node);
    if (op == "CrossEntropy") return cross_entropy(node, f);
    return false;
  }

  // A table's rows for every place: where packing begins.
  bool embedding(const Node& node) {
    const ValueId table = node.in[0], index = node.in[1];
    if (is_packed(table) || dims(table).size() != 2 || node.attrs.i("outer", 1) != 1) return false;
    const bool flat = dims(index) == Dims{places()};
    if (!flat && dims(index) != Dims{mask_.batch, mask_.length}) return false;
    const ValueId i = is_packed(index)
                          ? packed_[at(index)]
                          : b_.reshape(rows(plain(index), places(), places_), shape(dims(index), {1, flat}));
    Attrs a = node.attrs;
    a.set("dims", shape(dims(node.out[0]), {1, flat}));
    set(node.out[0], b_.op("GatherRows", {plain(table), i}, std::move(a)), {1, flat});
    return true;
  }

  bool elements(const Node& node, Form f) {
    const Dims& y = dims(node.out[0]);
    if (!has_form(y, f)) return false;
    std::vector<ValueId> in;
    for (const ValueId v : node.in) {
      if (dims(v).size() > y.size()) return false;
      in.push_back(beside(v, f, y.size()));
      if (!in.back()) return false;
    }
    set(node.out[0], b_.op(node.op->name, std::move(in), node.attrs), f);
    return true;
  }

  bool product(const Node& node, Form f) {
    const size_t rank = dims(node.in[0]).size();
    if (node.attrs.i("transA", 0) != 0 || is_packed(node.in[1]) || dims(node.in[1]).size() != 2 ||
        rank < (f.flat ? 2u : f.axis + 2))
      return false;
    std::vector<ValueId> in{packed_[at(node.in[0])], plain(node.in[1])};
    if (node.in.size() > 2) in.push_back(plain(node.in[2]));
    set(node.out[0], b_.op("MatMul", std::move(in), node.attrs), f);
    return true;
  }

  // Rows within a token.
  bool norm(const Node& node, Form f) {
    const Dims& x = dims(node.in[0]);
    const int64_t n = node.attrs.i("n", 1);
    int64_t inner = 1;
    for (size_t d = f.flat ? 1 : f.axis + 1; d < x.size(); ++d) inner *= x[d];
    if (inner % n != 0) return false;
    std::vector<ValueId> in{packed_[at(node.in[0])]};
    for (size_t i = 1; i < node.in.size(); ++i) in.push_back(plain(node.in[i]));
    const std::vector<ValueId> made = b_.ops("LayerNorm", std::move(in), node.attrs);
    set(node.out[0], made[0], f);
    if (inner == n && (f.flat || f.axis == 1)) {
      for (size_t i = 1; i < made.size(); ++i) set(node.out[i], made[i], {1, true});
    }
    return true;
  }

  // Places stay outermost: (batch, length, ..) and (batch length, ..) are the same bytes.
  bool reshape(const Node& node, Form f) {
    const Dims& y = dims(node.out[0]);
    if (!f.flat && f.axis != 1) return false;
    for (const Form to : {Form{1, false}, Form{1, true}}) {
      if (!has_form(y, to)) continue;
      set(node.out[0], b_.reshape(packed_[at(node.in[0])], shape(y, to)), to);
      return true;
    }
    return false;
  }

  bool transpose(const Node& node, Form f) {
    const auto perm = node.attrs.ints("perm");
    if (perm.empty() || perm[0] != 0) return false;
    Form to = f;
    if (!f.flat)
      to.axis = static_cast<size_t>(std::find(perm.begin(), perm.end(), static_cast<int64_t>(f.axis)) - perm.begin());
    set(node.out[0], b_.transpose(packed_[at(node.in[0])], perm), to);
    return true;
  }

  bool slice(const Node& node, Form f) {
    const Dims &x = dims(node.in[0]), &y = dims(node.out[0]);
    if (f.flat ? y[0] == x[0] : y[0] == x[0] && y[f.axis] == x[f.axis]) {
      Attrs a = node.attrs;
      a.set("dims", shape(y, f));
      set(node.out[0], b_.op("Slice", {packed_[at(node.in[0])]}, std::move(a)), f);
      return true;
    }
    // The first token of every sequence.
    const auto starts = node.attrs.ints("starts");
    Dims want = x;
    if (f.flat || f.axis != 1) return false;
    want[1] = 1;
    if (y != want || starts[1] != 0) return false;
    plain_[at(node.out[0])] = b_.reshape(rows(packed_[at(node.in[0])], tokens_, firsts_), y);
    return true;
  }

  // Along an axis that holds neither samples nor places.
  bool along_axis(const Node& node, Form f) {
    const std::string& op = node.op->name;
    const auto rank = static_cast<int64_t>(dims(node.in[0]).size());
    const int64_t axis = op == "Concat" || op == "Split" ? node.attrs.i("axis", 0) : rank - 1;
    if (axis == 0 || (!f.flat && axis == static_cast<int64_t>(f.axis))) return false;
    std::vector<ValueId> in;
    for (const ValueId v : node.in) {
      if (!is_packed(v) || !(form_[at(v)] == f)) return false;
      in.push_back(packed_[at(v)]);
    }
    const std::vector<ValueId> made = b_.ops(op, std::move(in), node.attrs);
    for (size_t i = 0; i < made.size(); ++i) set(node.out[i], made[i], f);
    return true;
  }

  bool dropout(const Node& node, Form f) {
    if ((!f.flat && f.axis != 1) || node.attrs.i("rows", 1) != mask_.batch) return false;
    Attrs a = node.attrs;
    a.set("length", mask_.length);
    set(node.out[0], b_.op("TokenDropout", {packed_[at(node.in[0])], places_}, std::move(a)), f);
    return true;
  }

  bool attention(const Node& node) {
    const Form f{node.attrs.i("heads_first", 0) != 0 ? size_t{2} : size_t{1}, false};
    if (node.attrs.i("packed", 0) != 0 || node.in.size() != 4) return false;
    // it sees padding
    if (std::find(mask_.masks.begin(), mask_.masks.end(), node.in[3]) == mask_.masks.end()) return false;
    std::vector<ValueId> in;
    for (size_t i = 0; i < 3; ++i) {
      if (!is_packed(node.in[i]) || !(form_[at(node.in[i])] == f)) return false;
      in.push_back(packed_[at(node.in[i])]);
    }
    in.insert(in.end(), {ValueId{}, offsets_});
    Attrs a = node.attrs;
    a.set("max_len", mask_.length);
    const std::vector<ValueId> made = b_.ops("FusedAttention", std::move(in), std::move(a));
    set(node.out[0], made[0], f);
    return true;
  }

  bool cross_entropy(const Node& node, Form f) {
    if (!f.flat || dims(node.in[1]) != Dims{places()}) return false;
    std::vector<ValueId> in{packed_[at(node.in[0])], b_.reshape(rows(plain(node.in[1]), places(), places_), {tokens_})};
    for (size_t i = 2; i < node.in.size(); ++i) in.push_back(plain(node.in[i]));
    plain_[at(node.out[0])] = b_.op("CrossEntropy", std::move(in), node.attrs);
    return true;
  }

  const Graph& g_;
  const PaddingMask& mask_;
  const int64_t tokens_;
  std::vector<ValueId> plain_, packed_;
  std::vector<Form> form_;  // of packed_
  Graph out_;
  Builder b_;
  ValueId places_, positions_, samples_, offsets_, firsts_;
};

}  // namespace

Graph remove_padding(const Graph& g, const PaddingMask& mask, int64_t tokens, const Evaluator& evaluator) {
  return Packer(g, mask, tokens, evaluator).run();
}

}  // namespace amp
