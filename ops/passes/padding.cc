// Padding removal (padding.h). If a rule covers a node's operator, Packer packs the node (computes it for real tokens
// only). Other nodes stay padded, and read zeros at padded positions. Values are converted between both forms when they
// are needed. padding_flow.h proves that results are equal.
#include "ops/passes/padding.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "ops/compose.h"

namespace amp {
namespace {

class Packer {
 public:
  Packer(const Graph& g, const PaddingMask& mask, int64_t tokens, const std::map<std::string, int64_t>& ignored,
         const Evaluator& evaluator)
      : g_(g),
        mask_(mask),
        tokens_(tokens),
        known_(g, evaluator, mask.places, held(g, mask, ignored)),
        plain_(static_cast<size_t>(g.n_values())),
        packed_(plain_.size()),
        form_(plain_.size()),
        reach_(plain_.size()),
        bounds_(plain_.size()),
        cause_(plain_.size()),
        b_(out_, evaluator) {}

  Unpadded run() {
    places_ = out_.add_input("padding.tokens", DType::i64, {tokens_});
    positions_ = out_.add_input("padding.positions", DType::i64, {tokens_});
    samples_ = out_.add_input("padding.samples", DType::i64, {tokens_});
    offsets_ = out_.add_input("padding.offsets", DType::i64, {batch() + 1});
    firsts_ = out_.add_input("padding.firsts", DType::i64, {batch()});
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      const Node& node = g_.node(NodeId{n});
      b_.origin = node.origin;
      const bool packed = try_packed(node);
      if (!packed) emit_plain(NodeId{n});
      for (size_t i = 0; packed && i < node.out.size(); ++i) bounds_[at(node.out[i])] = known_.bounds(node.out[i]);
    }
    Unpadded result;
    for (const auto& o : g_.outputs) {
      out_.outputs.push_back({o.name, plain(o.value)});
      const Reach r = reach(o.value);
      if (r.kind == Reach::token) result.tokens[o.name] = r.form;
      const bool read = o.name.starts_with("loss.") || o.name.starts_with("statistic.");
      if (result.seen_by.empty() && (r.kind == Reach::mixed || (r.kind == Reach::token && read)))
        result.seen_by = name_of(cause_[at(o.value)] ? cause_[at(o.value)] : g_.value(o.value).producer);
    }
    result.graph = prune(out_);
    return result;
  }

 private:
  static size_t at(ValueId v) { return static_cast<size_t>(v.index); }
  const Dims& dims(ValueId v) const { return g_.value(v).dims; }
  bool is_packed(ValueId v) const { return v && packed_[at(v)]; }
  int64_t places() const { return mask_.places.count(); }
  int64_t batch() const { return mask_.places.batch; }
  int64_t length() const { return mask_.places.length; }
  bool has_form(const Dims& d, TokenForm f) const { return mask_.places.has_form(d, f); }

  static std::map<int32_t, PlaceValues::Known> held(const Graph& g, const PaddingMask& mask,
                                                    const std::map<std::string, int64_t>& ignored) {
    std::map<int32_t, PlaceValues::Known> m;
    for (const auto& [label, value] : ignored) m[g.input(label).index] = {false, {}, {}, static_cast<double>(value)};
    m[g.input(mask.input).index] = {false, {}, 1.0, 0.0};
    return m;
  }
  // Returns how v in the new graph depends on padding. A packed v counts as 0 at padded positions.
  Reach reach(ValueId v) const {
    if (!v) return {};
    if (!is_packed(v)) return reach_[at(v)];
    return padded_is(v, 0) ? Reach{} : Reach{Reach::token, form_[at(v)]};
  }
  bool padded_is(ValueId v, double x) const { return known_.padded_is(v, form_[at(v)], dims(v).size(), x); }
  bool clean(ValueId v) const { return reach(v).kind == Reach::clean; }
  // Returns whether padding changes v only at padded positions of form f, or not at all.
  bool right(ValueId v, TokenForm f) const {
    const Reach r = reach(v);
    return r.kind == Reach::clean || (r.kind == Reach::token && r.form == f);
  }
  std::string name_of(NodeId n) const {
    const Node& node = g_.node(n);
    const std::string& name = g_.value(node.out[0]).name;
    return name.empty() ? node.op->name : cat(node.op->name, " (", printable(name), ")");
  }
  Dims shape(Dims d, TokenForm f) const {
    d[0] = f.flat ? tokens_ : 1;
    if (!f.flat) d[f.axis] = tokens_;
    return d;
  }
  void set(ValueId old, ValueId made, TokenForm f) {
    check(b_.dims(made) == shape(dims(old), f), "padding removal: a rule made another shape");
    packed_[at(old)] = made;
    form_[at(old)] = f;
  }
  ValueId rows(ValueId table, int64_t n, ValueId indices) {
    return lookup(b_, b_.reshape(table, {n, numel(b_.dims(table)) / n}), indices);
  }

  // Returns v as a padded tensor. If v was packed, its padded positions are 0.
  ValueId plain(ValueId v) {
    if (!v) return {};
    ValueId& to = plain_[at(v)];
    if (to) return to;
    const Value& x = g_.value(v);
    if (x.kind == ValueKind::input) return to = out_.add_input(x.name, x.dtype, x.dims);
    if (x.kind == ValueKind::param) return to = out_.add_param(x.slot, x.name, x.dtype, x.dims);
    if (x.kind == ValueKind::constant) return to = b_.constant(x.constant);
    check(is_packed(v), "padding removal: a value is used before its node");
    const TokenForm f = form_[at(v)];
    ValueId y = packed_[at(v)];
    const std::vector<int64_t> there = f.flat ? std::vector<int64_t>{} : moved_axis(x.dims.size(), f.axis, 1);
    if (!f.flat) y = b_.transpose(y, there);
    Dims d = b_.dims(y);
    const int64_t inner = numel(d) / tokens_;
    const DType type = b_.dtype(y);
    if (!is_float(type)) y = b_.cast(y, DType::f32);  // ScatterRows needs a floating-point type
    y = b_.op("ScatterRows", {b_.reshape(y, {tokens_, inner}), places_},
              {{"outer", int64_t{1}}, {"n", places()}, {"inner", inner}, {"dims", Dims{places(), inner}}});
    if (!is_float(type)) y = b_.cast(y, type);
    if (f.flat) return to = b_.reshape(y, x.dims);
    d[0] = batch();
    d[1] = length();
    return to = b_.transpose(b_.reshape(y, d), moved_axis(x.dims.size(), 1, f.axis));
  }

  // Returns v as an operand of a packed node whose output has form f and had `rank` axes before it was packed. The
  // result is packed, or v itself if v has neither a batch nor a length axis. Returns an invalid id if v cannot be
  // packed.
  ValueId packed_operand(ValueId v, TokenForm f, size_t rank) {
    if (is_packed(v)) return form_[at(v)] == f && dims(v).size() == rank ? packed_[at(v)] : ValueId{};
    const Dims d = dims(v);
    const size_t shift = rank - d.size();
    if (!(shift == 0 ? right(v, f) : clean(v))) return {};
    const auto extent = [&](size_t axis) { return axis < shift ? 1 : d[axis - shift]; };
    if (f.flat) {
      if (extent(0) == 1) return clean(v) ? plain(v) : ValueId{};
      return b_.reshape(rows(plain(v), places(), places_), shape(d, f));
    }
    const int64_t samples = extent(0), places = extent(f.axis);
    if ((samples == 1 || places == 1) && !clean(v)) return {};
    if (samples == 1 && places == 1) return plain(v);
    for (size_t axis = 1; axis < f.axis; ++axis) {
      if (extent(axis) != 1) return {};  // axes between batch and length (heads) must have extent 1
    }
    if (f.axis < shift) return {};
    Dims made = d;
    if (shift == 0) made[0] = 1;
    made[f.axis - shift] = tokens_;
    if (samples == 1) return b_.reshape(rows(plain(v), length(), positions_), made);
    if (places == 1) return b_.reshape(rows(plain(v), batch(), samples_), made);
    return b_.reshape(rows(plain(v), this->places(), places_), made);
  }

  void emit_plain(NodeId id) {
    const Node& node = g_.node(id);
    std::vector<ValueId> in;
    std::vector<ReachedInput> reached;
    std::vector<Bounds> bounds;
    NodeId cause;
    for (const ValueId v : node.in) {
      in.push_back(plain(v));
      bounds.push_back(plain_bounds(v));
      reached.push_back({reach(v), bounds.back().finite && (!v || known_.bounds(v).finite)});
      if (reached.back().reach.kind == Reach::mixed && !cause) cause = cause_[at(v)];
    }
    const Reach r = output_reach(g_, node, mask_.places, reached, known_, hides(node));
    const Bounds after = output_bounds(g_, node, bounds);
    for (const ValueId v : node.out) bounds_[at(v)] = r.kind == Reach::clean ? known_.bounds(v) : after;
    const std::vector<ValueId> made = b_.ops(node.op->name, std::move(in), node.attrs);
    for (size_t i = 0; i < made.size(); ++i) {
      const ValueId v = node.out[i];
      plain_[at(v)] = made[i];
      const bool alike = i == 0 || r.kind == Reach::clean || node.op->name == "Split";
      reach_[at(v)] = alike ? r : Reach{Reach::mixed, {}};
      if (reach_[at(v)].kind == Reach::mixed) cause_[at(v)] = cause ? cause : id;
    }
  }
  // Returns the bounds of plain(v), which include 0 at padded positions if v is packed.
  Bounds plain_bounds(ValueId v) const {
    if (!v) return finite_between(-Bounds::kInf, Bounds::kInf);
    if (is_packed(v)) return known_.bounds(v).joined(finite_between(0, 0));
    return g_.value(v).kind == ValueKind::temp ? bounds_[at(v)] : known_.bounds(v);
  }
  // Returns whether the attention's mask hides all padded keys from real tokens.
  bool hides(const Node& node) const {
    return node.op->name == "FusedAttention" && node.in.size() > 3 &&
           std::find(mask_.masks.begin(), mask_.masks.end(), node.in[3]) != mask_.masks.end();
  }

  bool try_packed(const Node& node) {
    const std::string& op = node.op->name;
    if (op == "GatherRows") return embedding(node);
    const auto first = std::find_if(node.in.begin(), node.in.end(), [&](ValueId v) { return is_packed(v); });
    if (first == node.in.end()) return false;
    const TokenForm f = form_[at(*first)];
    if (is_elementwise(node)) return elements(node, f);
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

  // Packs a lookup of one table row per position. Packing starts at such nodes, because their indices are inputs.
  bool embedding(const Node& node) {
    const ValueId table = node.in[0], index = node.in[1];
    if (!clean(table) || dims(table).size() != 2 || node.attrs.i("outer", 1) != 1) return false;
    const bool flat = dims(index) == Dims{places()};
    if (!flat && dims(index) != Dims{batch(), length()}) return false;
    if (!right(index, {1, flat})) return false;
    const ValueId i = is_packed(index)
                          ? packed_[at(index)]
                          : b_.reshape(rows(plain(index), places(), places_), shape(dims(index), {1, flat}));
    Attrs a = node.attrs;
    a.set("dims", shape(dims(node.out[0]), {1, flat}));
    set(node.out[0], b_.op("GatherRows", {plain(table), i}, std::move(a)), {1, flat});
    return true;
  }

  bool elements(const Node& node, TokenForm f) {
    const Dims& y = dims(node.out[0]);
    if (!has_form(y, f)) return false;
    // If the value at padded positions is known, readers may depend on it, and packing would replace it by 0.
    const PlaceValues::Known* there = known_.at(node.out[0]);
    if (there && there->padded != 0.0) return false;
    std::vector<ValueId> in;
    for (const ValueId v : node.in) {
      if (dims(v).size() > y.size()) return false;
      in.push_back(packed_operand(v, f, y.size()));
      if (!in.back()) return false;
    }
    set(node.out[0], b_.op(node.op->name, std::move(in), node.attrs), f);
    return true;
  }

  bool product(const Node& node, TokenForm f) {
    const size_t rank = dims(node.in[0]).size();
    if (node.attrs.i("transA", 0) != 0 || !clean(node.in[1]) || dims(node.in[1]).size() != 2 ||
        rank < (f.flat ? 2u : f.axis + 2))
      return false;
    if (node.in.size() > 2 && (!clean(node.in[2]) || dims(node.in[2]).size() != 1)) return false;
    std::vector<ValueId> in{packed_[at(node.in[0])], plain(node.in[1])};
    if (node.in.size() > 2) in.push_back(plain(node.in[2]));
    set(node.out[0], b_.op("MatMul", std::move(in), node.attrs), f);
    return true;
  }

  bool norm(const Node& node, TokenForm f) {
    const Dims& x = dims(node.in[0]);
    const int64_t n = node.attrs.i("n", 1);
    int64_t inner = 1;
    for (size_t d = f.flat ? 1 : f.axis + 1; d < x.size(); ++d) inner *= x[d];
    if (inner % n != 0 || !std::all_of(node.in.begin() + 1, node.in.end(), [&](ValueId v) { return clean(v); }))
      return false;
    std::vector<ValueId> in{packed_[at(node.in[0])]};
    for (size_t i = 1; i < node.in.size(); ++i) in.push_back(plain(node.in[i]));
    const std::vector<ValueId> made = b_.ops("LayerNorm", std::move(in), node.attrs);
    set(node.out[0], made[0], f);
    if (inner == n && (f.flat || f.axis == 1)) {
      for (size_t i = 1; i < made.size(); ++i) set(node.out[i], made[i], {1, true});
    }
    return true;
  }

  // Packs a reshape that keeps batch and length outermost: (batch, length, ..) to or from (batch length, ..).
  bool reshape(const Node& node, TokenForm f) {
    const Dims& y = dims(node.out[0]);
    if (!f.flat && f.axis != 1) return false;
    for (const TokenForm to : {TokenForm{1, false}, TokenForm{1, true}}) {
      if (!has_form(y, to)) continue;
      set(node.out[0], b_.reshape(packed_[at(node.in[0])], shape(y, to)), to);
      return true;
    }
    return false;
  }

  bool transpose(const Node& node, TokenForm f) {
    const auto perm = node.attrs.ints("perm");
    if (perm.empty() || perm[0] != 0) return false;
    TokenForm to = f;
    if (!f.flat)
      to.axis = static_cast<size_t>(std::find(perm.begin(), perm.end(), static_cast<int64_t>(f.axis)) - perm.begin());
    set(node.out[0], b_.transpose(packed_[at(node.in[0])], perm), to);
    return true;
  }

  bool slice(const Node& node, TokenForm f) {
    const Dims& y = dims(node.out[0]);
    if (output_form(g_, node, mask_.places, f) == f) {
      Attrs a = node.attrs;
      a.set("dims", shape(y, f));
      set(node.out[0], b_.op("Slice", {packed_[at(node.in[0])]}, std::move(a)), f);
      return true;
    }
    // The only other slice that is packed takes the first token of each sequence.
    Dims want = dims(node.in[0]);
    if (f.flat || f.axis != 1) return false;
    want[1] = 1;
    const auto steps = node.attrs.ints("steps");
    if (y != want || node.attrs.ints("starts")[1] != 0 ||
        std::any_of(steps.begin(), steps.end(), [](int64_t s) { return s != 1; }))
      return false;
    plain_[at(node.out[0])] = b_.reshape(rows(packed_[at(node.in[0])], tokens_, firsts_), y);
    return true;
  }

  // Packs an operator that works along an axis that is neither batch nor length.
  bool along_axis(const Node& node, TokenForm f) {
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

  bool dropout(const Node& node, TokenForm f) {
    if ((!f.flat && f.axis != 1) || node.attrs.i("rows", 1) != batch()) return false;
    Attrs a = node.attrs;
    a.set("length", length());
    set(node.out[0], b_.op("TokenDropout", {packed_[at(node.in[0])], places_}, std::move(a)), f);
    return true;
  }

  bool attention(const Node& node) {
    const TokenForm f{node.attrs.i("heads_first", 0) != 0 ? size_t{2} : size_t{1}, false};
    if (node.attrs.i("packed", 0) != 0 || node.in.size() != 4) return false;
    if (!hides(node)) return false;
    std::vector<ValueId> in;
    for (size_t i = 0; i < 3; ++i) {
      if (!is_packed(node.in[i]) || !(form_[at(node.in[i])] == f)) return false;
      in.push_back(packed_[at(node.in[i])]);
    }
    in.insert(in.end(), {ValueId{}, offsets_});
    Attrs a = node.attrs;
    a.set("max_len", length());
    const std::vector<ValueId> made = b_.ops("FusedAttention", std::move(in), std::move(a));
    set(node.out[0], made[0], f);
    return true;
  }

  bool cross_entropy(const Node& node, TokenForm f) {
    if (!f.flat || dims(node.in[1]) != Dims{places()} ||
        !std::all_of(node.in.begin() + 1, node.in.end(), [&](ValueId v) { return clean(v); }) ||
        !known_.padded_is(node.in[1], f, 1, static_cast<double>(node.attrs.i("ignore_index", -100))))
      return false;
    std::vector<ValueId> in{packed_[at(node.in[0])], b_.reshape(rows(plain(node.in[1]), places(), places_), {tokens_})};
    for (size_t i = 2; i < node.in.size(); ++i) in.push_back(plain(node.in[i]));
    plain_[at(node.out[0])] = b_.op("CrossEntropy", std::move(in), node.attrs);
    return true;
  }

  const Graph& g_;
  const PaddingMask& mask_;
  const int64_t tokens_;
  const PlaceValues known_;
  std::vector<ValueId> plain_, packed_;
  std::vector<TokenForm> form_;  // token form of the value in packed_
  std::vector<Reach> reach_;     // Reach of the value in plain_, for results of nodes that stay padded
  std::vector<Bounds> bounds_;   // bounds of the value in plain_, for results of nodes
  std::vector<NodeId> cause_;    // node from which on Reach of the value in plain_ is mixed
  Graph out_;
  Builder b_;
  ValueId places_, positions_, samples_, offsets_, firsts_;
};

}  // namespace

Unpadded remove_padding(const Graph& g, const PaddingMask& mask, int64_t tokens,
                        const std::map<std::string, int64_t>& ignored, const Evaluator& evaluator) {
  return Packer(g, mask, tokens, ignored, evaluator).run();
}

}  // namespace amp
