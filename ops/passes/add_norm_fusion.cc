// Fuses residual sum, dropout and norm into AddNorm, and their gradients into AddNormGrad (add_norm_fusion.h).
// NormFuser starts at each LayerNorm and LayerNormGrad, matches the nodes around it and records the replacement. Then
// it writes the new graph, with the nodes in the old order.

#include "ops/passes/add_norm_fusion.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "graph/copier.h"
#include "graph/op.h"
#include "graph/passes.h"

namespace amp {

namespace {

// The fused node that replaces a node of the old graph.
struct Fused {
  const char* op = "";
  std::vector<ValueId> in;
  Attrs attrs;
  std::vector<ValueId> out;   // values of the old graph, in the order of the new node's outputs
  std::vector<int32_t> gone;  // nodes that are removed, including the node that is replaced
};

class NormFuser {
 public:
  explicit NormFuser(const Graph& g)
      : g_(g), readers_(static_cast<size_t>(g.n_values())), kept_(readers_.size(), false) {
    for (int32_t n = 0; n < g.n_nodes(); ++n) {
      for (const ValueId v : g.node(NodeId{n}).in) {
        if (v) readers_[static_cast<size_t>(v.index)].push_back(n);
      }
    }
    for (const auto& o : g.outputs) kept_[static_cast<size_t>(o.value.index)] = true;
    for (const auto& p : g.param_grads) kept_[static_cast<size_t>(p.value.index)] = true;
  }

  Graph run() {
    std::map<int32_t, Fused> at;
    std::vector<bool> gone(static_cast<size_t>(g_.n_nodes()), false);
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      const std::string& op = g_.node(NodeId{n}).op->name;
      std::optional<std::pair<int32_t, Fused>> found;
      if (op == "LayerNorm") found = forward(n);
      if (op == "LayerNormGrad") found = backward(n);
      if (!found) continue;
      const std::vector<int32_t>& all = found->second.gone;
      if (std::any_of(all.begin(), all.end(), [&](int32_t i) { return gone[static_cast<size_t>(i)]; })) continue;
      for (const int32_t i : all) gone[static_cast<size_t>(i)] = true;
      at.emplace(found->first, std::move(found->second));
    }
    if (at.empty()) return g_;
    Copier out(g_);
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      const Node& node = g_.node(NodeId{n});
      const auto fused = at.find(n);
      if (fused == at.end() && gone[static_cast<size_t>(n)]) continue;
      if (fused == at.end()) {
        out.node(NodeId{n}, types_of(g_, node.out));
        continue;
      }
      const Fused& f = fused->second;
      Node like = node;
      like.op = &core_op(f.op);
      like.attrs = f.attrs;
      out.add(like, f.in, f.out, types_of(g_, f.out));
    }
    out.finish();
    return prune(out.out);
  }

 private:
  const Value& value(ValueId v) const { return g_.value(v); }
  const std::vector<int32_t>& readers(ValueId v) const { return readers_[static_cast<size_t>(v.index)]; }
  bool kept(ValueId v) const { return kept_[static_cast<size_t>(v.index)]; }
  int64_t type(ValueId v) const { return static_cast<int64_t>(value(v).dtype); }

  // Returns the index of the node that computes v if the node's operator is `op`; otherwise -1.
  int32_t made_by(ValueId v, const char* op) const {
    if (!v || value(v).kind != ValueKind::temp) return -1;
    const NodeId n = value(v).producer;
    return g_.node(n).op->name == op ? n.index : -1;
  }
  // Returns made_by(v, op) if exactly one node reads v, once, and v is no output; otherwise -1.
  int32_t made_for_one(ValueId v, const char* op) const {
    return readers(v).size() == 1 && !kept(v) ? made_by(v, op) : -1;
  }
  // Returns the only node with the operator `op` that reads v; -1 if there are none or several.
  int32_t reader(ValueId v, const char* op) const {
    int32_t found = -1;
    for (const int32_t n : readers(v)) {
      if (g_.node(NodeId{n}).op->name != op) continue;
      if (found >= 0) return -1;
      found = n;
    }
    return found;
  }
  // Returns the node that casts v from fp32 to 16 bits; -1 if there is none.
  int32_t low_copy(ValueId v) const {
    const int32_t n = reader(v, "Cast");
    return n >= 0 && value(v).dtype == DType::f32 && is_low(value(g_.node(NodeId{n}).out[0]).dtype) ? n : -1;
  }
  bool all_read_behind(ValueId v, int32_t n, const std::vector<int32_t>& but) const {
    const auto& all = readers(v);
    return std::all_of(all.begin(), all.end(),
                       [&](int32_t r) { return r > n || std::count(but.begin(), but.end(), r) > 0; });
  }
  // Returns whether the Add n sums two tensors of the same shape.
  bool plain_sum(int32_t n) const {
    const Node& add = g_.node(NodeId{n});
    const Dims& d = value(add.out[0]).dims;
    return add.in[0] != add.in[1] && value(add.in[0]).dims == d && value(add.in[1]).dims == d;
  }
  static void keep_dropout(const Attrs& from, Attrs& to) {
    to.set("ratio", from.f("ratio", 0.5));
    to.set("site", from.i("site", 0));
    to.set("rows", from.i("rows", 1));
    if (from.has("length")) to.set("length", from.i("length", 1));
  }
  // plain: the index of a Dropout node, or -1. packed: that of a TokenDropout node, or -1. Returns `plain`, or `packed`
  // if its tokens are rows of n elements; otherwise -1.
  int32_t dropout_of_rows(int32_t plain, int32_t packed, int64_t n) const {
    if (packed < 0) return plain;
    const Node& node = g_.node(NodeId{packed});
    return numel(value(node.in[0]).dims) == n * numel(value(node.in[1]).dims) ? packed : -1;
  }
  int32_t dropped_for_one(ValueId v, int64_t n) const {
    return dropout_of_rows(made_for_one(v, "Dropout"), made_for_one(v, "TokenDropout"), n);
  }
  ValueId tokens_of(int32_t drop) const {
    const Node& node = g_.node(NodeId{drop});
    return node.in.size() > 1 ? node.in[1] : ValueId{};
  }

  std::optional<std::pair<int32_t, Fused>> forward(int32_t at) const {
    const Node& norm = g_.node(NodeId{at});
    const ValueId s = norm.in[0];
    const int32_t add = made_by(s, "Add");
    if (add < 0 || kept(s) || !plain_sum(add) || !all_read_behind(s, at, {at})) return std::nullopt;
    Fused f;
    f.op = "AddNorm";
    f.attrs = norm.attrs;
    f.gone = {at, add};
    const Node& sum = g_.node(NodeId{add});
    // Selects the operand of the sum that is the branch: the operand with dropout, or else the operand with a bias.
    size_t which = 0;
    for (const size_t i : {1, 0}) {
      if (made_for_one(sum.in[i], "Add") >= 0) which = i;
    }
    for (const size_t i : {1, 0}) {
      if (dropped_for_one(sum.in[i], norm.attrs.i("n", 1)) >= 0) which = i;
    }
    ValueId a = sum.in[which], b, tokens;
    if (const int32_t drop = dropped_for_one(a, norm.attrs.i("n", 1)); drop >= 0) {
      f.gone.push_back(drop);
      tokens = tokens_of(drop);
      keep_dropout(g_.node(NodeId{drop}).attrs, f.attrs);
      f.attrs.set("dropped", type(a));
      a = g_.node(NodeId{drop}).in[0];
    }
    if (const int32_t with = made_for_one(a, "Add"); with >= 0) {
      const Node& biased = g_.node(NodeId{with});
      const int64_t n = norm.attrs.i("n", 1);
      for (size_t i = 0; i < 2; ++i) {
        const Value &v = value(biased.in[i]), &other = value(biased.in[1 - i]);
        if (b || v.dims != Dims{n} || other.dims != value(s).dims || other.dims.back() != n) continue;
        b = biased.in[i];
        f.attrs.set("sum", type(a));
        f.gone.push_back(with);
      }
      if (b) a = g_.node(NodeId{with}).in[biased.in[0] == b ? 1 : 0];
    }
    f.in = {a, sum.in[1 - which], norm.in[1], norm.in.size() > 2 ? norm.in[2] : ValueId{}, b};
    if (tokens) f.in.push_back(tokens);
    f.out = {norm.out[0], s, norm.out[1], norm.out[2]};
    copy(norm.out[0], f);
    return std::pair(at, std::move(f));
  }

  std::optional<std::pair<int32_t, Fused>> backward(int32_t at) const {
    const Node& norm = g_.node(NodeId{at});
    Fused f;
    f.op = "AddNormGrad";
    f.attrs = norm.attrs;
    f.gone = {at};
    f.in = norm.in;
    ValueId ds = norm.out[0];
    int32_t last = at;
    if (readers(ds).size() == 1 && !kept(ds) && reader(ds, "Add") >= 0 && plain_sum(reader(ds, "Add"))) {
      last = reader(ds, "Add");
      const Node& sum = g_.node(NodeId{last});
      f.attrs.set("norm", type(ds));
      f.in.push_back(sum.in[sum.in[0] == ds ? 1 : 0]);
      f.gone.push_back(last);
      ds = sum.out[0];
    }
    f.out = {ds};
    const ValueId sum = ds;
    if (const int32_t drop = dropout_of_rows(reader(ds, "Dropout"), reader(ds, "TokenDropout"), norm.attrs.i("n", 1));
        drop >= 0 && value(g_.node(NodeId{drop}).out[0]).dims == value(ds).dims) {
      const Node& d = g_.node(NodeId{drop});
      if (all_read_behind(sum, drop, {drop})) {
        keep_dropout(d.attrs, f.attrs);
        f.gone.push_back(drop);
        if (const ValueId tokens = tokens_of(drop)) {
          f.in.resize(6);
          f.in.push_back(tokens);
        }
        f.out.push_back(d.out[0]);
        ds = d.out[0];
        last = drop;
      }
    }
    if (const int32_t cast = low_copy(ds); cast >= 0) {
      std::vector<int32_t> but = f.gone;
      but.push_back(cast);
      if (all_read_behind(sum, cast, but) && all_read_behind(ds, cast, but)) {
        copy(ds, f);
        last = cast;
      }
    }
    if (f.gone.size() == 1) return std::nullopt;
    return std::pair(last, std::move(f));
  }

  void copy(ValueId of, Fused& f) const {
    const int32_t cast = low_copy(of);
    if (cast < 0) return;
    const ValueId v = g_.node(NodeId{cast}).out[0];
    f.attrs.set("copy", type(v));
    f.out.push_back(v);
    f.gone.push_back(cast);
  }

  const Graph& g_;
  std::vector<std::vector<int32_t>> readers_;
  std::vector<bool> kept_;
};

}  // namespace

Graph fuse_norms(const Graph& g) { return NormFuser(g).run(); }

}  // namespace amp
