// Activation recomputation (recompute.h): selects the values that are not stored, and inserts copies of their nodes
// before the first node of backward that reads them.

#include "ops/passes/recompute.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "graph/copier.h"
#include "graph/op.h"

namespace amp {

namespace {

size_t index(ValueId v) { return static_cast<size_t>(v.index); }

// Returns whether the operator takes a significant part of the forward pass's time.
bool is_product(const Node& n) {
  static const std::set<std::string, std::less<>> products = {
      "MatMul", "MatMulGelu", "Conv", "ConvGradX", "FusedAttention", "LSTM", "GRU", "RNN", "Det", "Inverse"};
  return products.count(n.op->name) > 0;
}

// Returns for each value the value whose memory it uses: the source of a chain of views, otherwise the value itself.
std::vector<int32_t> roots(const Graph& g) {
  std::vector<int32_t> root(static_cast<size_t>(g.n_values()));
  for (size_t v = 0; v < root.size(); ++v) root[v] = static_cast<int32_t>(v);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (node.op->view) root[index(node.out[0])] = root[index(node.in[0])];
  }
  return root;
}

int64_t bytes_of(const Value& v) { return numel(v.dims) * size_of(v.dtype); }

// Returns for each node whether it is never recomputed. That holds for nodes that communicate, and for nodes that
// depend only on parameters, because some of their results are kept from step to step (backend/param_cache.h).
std::vector<bool> nodes_that_stay(const Graph& g) {
  std::vector<bool> fixed(static_cast<size_t>(g.n_values()), false), out(static_cast<size_t>(g.n_nodes()), false);
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const ValueKind kind = g.value(ValueId{i}).kind;
    fixed[static_cast<size_t>(i)] = kind == ValueKind::param || kind == ValueKind::constant;
  }
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    const bool of_params =
        node.op->effect == Effect::pure &&
        std::all_of(node.in.begin(), node.in.end(), [&](ValueId v) { return !v || fixed[index(v)]; });
    for (const ValueId v : node.out) fixed[index(v)] = of_params;
    out[static_cast<size_t>(n)] = of_params || node.op->effect == Effect::communicates;
  }
  return out;
}

// The last nodes that read each value. root: roots(). forward and last: indexed by root, the last node that reads it in
// the forward pass and in the whole graph; -1 if there is none.
struct Reads {
  std::vector<int32_t> root, forward, last;
  std::vector<bool> stays;  // indexed by node: nodes_that_stay()

  Reads(const Graph& g, int32_t backward)
      : root(roots(g)), forward(root.size(), -1), last(root.size(), -1), stays(nodes_that_stay(g)) {
    for (int32_t n = 0; n < g.n_nodes(); ++n) {
      for (const ValueId v : g.node(NodeId{n}).in) {
        if (!v) continue;
        const auto r = static_cast<size_t>(root[index(v)]);
        last[r] = n;
        if (n < backward) forward[r] = n;
      }
    }
    for (const auto& o : g.outputs) last[static_cast<size_t>(root[index(o.value)])] = g.n_nodes();
  }
};

// Drops results of cheap nodes with indices in [begin, backward) that can be computed from values that are available in
// backward; dropped values count as available.
void add_cheap(const Graph& g, int32_t begin, int32_t backward, const Reads& reads, Dropped& dropped) {
  std::vector<bool> there(static_cast<size_t>(g.n_values()), false);
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    const auto r = static_cast<size_t>(reads.root[static_cast<size_t>(i)]);
    there[static_cast<size_t>(i)] =
        v.kind != ValueKind::temp || dropped[static_cast<size_t>(i)] || reads.last[r] >= backward;
  }
  for (int32_t n = begin; n < backward; ++n) {
    const Node& node = g.node(NodeId{n});
    if (is_product(node) || reads.stays[static_cast<size_t>(n)]) continue;
    if (!std::all_of(node.in.begin(), node.in.end(), [&](ValueId v) { return !v || there[index(v)]; })) continue;
    for (const ValueId v : node.out) {
      // A view is dropped together with its source, whose memory it shares. Recomputing a view costs nothing.
      there[index(v)] = dropped[index(v)] = true;
    }
  }
}

}  // namespace

int32_t backward_begin(const Graph& g, const std::vector<ValueId>& seeds) {
  std::vector<bool> seeded(static_cast<size_t>(g.n_values()), false);
  for (const ValueId v : seeds) seeded[index(v)] = true;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (std::any_of(node.in.begin(), node.in.end(), [&](ValueId v) { return v && seeded[index(v)]; })) return n;
  }
  return g.n_nodes();
}

Dropped drop_cheap(const Graph& g, int32_t backward) {
  Dropped dropped(static_cast<size_t>(g.n_values()), false);
  add_cheap(g, 0, backward, Reads(g, backward), dropped);
  return dropped;
}

Dropped drop_segments(const Graph& g, int32_t backward, int segments) {
  const Reads reads(g, backward);
  const auto n = static_cast<size_t>(backward);
  // kept: per node, the bytes of values computed before the node that are kept for backward. crossing: per node, the
  // bytes of values computed before the node that the forward pass reads from this node on.
  std::vector<int64_t> kept(n + 1, 0), crossing(n + 2, 0);
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    const auto at = static_cast<size_t>(i);
    if (v.kind != ValueKind::temp || v.producer.index >= backward || reads.root[at] != i) continue;
    if (reads.last[at] >= backward) kept[static_cast<size_t>(v.producer.index) + 1] += bytes_of(v);
    if (reads.forward[at] > v.producer.index) {
      crossing[static_cast<size_t>(v.producer.index) + 1] += bytes_of(v);
      crossing[static_cast<size_t>(reads.forward[at]) + 1] -= bytes_of(v);
    }
  }
  for (size_t i = 1; i <= n; ++i) kept[i] += kept[i - 1], crossing[i] += crossing[i - 1];

  Dropped dropped(static_cast<size_t>(g.n_values()), false);
  std::vector<bool> checkpoint(dropped.size(), false);
  int32_t last_cut = 0;
  for (int s = 1; s < segments; ++s) {
    const auto place = [&](double part) {
      const auto want = static_cast<int64_t>(part / segments * static_cast<double>(kept[n]));
      return std::lower_bound(kept.begin(), kept.end(), want) - kept.begin();
    };
    const auto from = crossing.begin() + place(s - 0.35),
               to = crossing.begin() + std::min<int64_t>(backward, place(s + 0.35));
    const auto cut = static_cast<int32_t>(std::min_element(from, std::max(from + 1, to)) - crossing.begin());
    if (cut <= last_cut) continue;
    for (int32_t i = 0; i < g.n_values(); ++i) {
      const auto r = static_cast<size_t>(reads.root[static_cast<size_t>(i)]);
      const Value& v = g.value(ValueId{static_cast<int32_t>(r)});
      if (v.kind == ValueKind::temp && v.producer.index < cut && reads.forward[r] >= cut) checkpoint[r] = true;
    }
    last_cut = cut;
  }
  for (int32_t i = 0; i < last_cut; ++i) {
    const Node& node = g.node(NodeId{i});
    if (reads.stays[static_cast<size_t>(i)]) continue;
    for (const ValueId v : node.out) dropped[index(v)] = !checkpoint[static_cast<size_t>(reads.root[index(v)])];
  }
  add_cheap(g, last_cut, backward, reads, dropped);
  return dropped;
}

namespace {

constexpr const char* kAgain = "recomputed";  // role in the origin of recomputed nodes

// A copy of a graph whose backward nodes read recomputed versions of dropped values.
class Recomputation {
 public:
  Recomputation(const Graph& g, int32_t backward, const Dropped& dropped)
      : g_(g), dropped_(dropped), kept_(g, out_), again_(dropped.size()) {
    for (int32_t n = 0; n < g.n_nodes(); ++n) {
      const bool late = n >= backward;
      if (late) compute_again(g.node(NodeId{n}).in);
      copy(n, late, "");
    }
    kept_.finish();
  }
  Graph take() { return std::move(out_); }

 private:
  void copy(int32_t n, bool late, const char* role) {
    const Node& node = g_.node(NodeId{n});
    std::vector<ValueId> in;
    for (const ValueId v : node.in) in.push_back(late && v && dropped_[index(v)] ? again_[index(v)] : kept_(v));
    Node like = node;
    if (*role) like.origin.role = role;
    const std::vector<ValueId> made = out_.node(out_.add_copy(like, in, types_of(g_, node.out))).out;
    for (size_t i = 0; i < made.size(); ++i) {
      if (*role)
        again_[index(node.out[i])] = made[i];
      else
        kept_.set(node.out[i], made[i]);
    }
  }

  // Recomputes those of `values` that were dropped, and all dropped values that they need, in the order of the forward
  // pass.
  void compute_again(const std::vector<ValueId>& values) {
    std::set<int32_t> nodes;
    std::vector<ValueId> open = values;
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (!v || !dropped_[index(v)] || again_[index(v)]) continue;
      const NodeId producer = g_.value(v).producer;
      if (!nodes.insert(producer.index).second) continue;
      const std::vector<ValueId>& in = g_.node(producer).in;
      open.insert(open.end(), in.begin(), in.end());
    }
    for (const int32_t n : nodes) copy(n, true, kAgain);
  }

  const Graph& g_;
  const Dropped& dropped_;
  Graph out_;
  ValueMap kept_;
  std::vector<ValueId> again_;  // indexed by value of the old graph: its recomputed copy
};

}  // namespace

Graph recompute(const Graph& g, int32_t backward, const Dropped& dropped) {
  return Recomputation(g, backward, dropped).take();
}

double products_again(const Graph& g) {
  int64_t once = 0, again = 0;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    const std::string_view role = node.origin.role;
    if (is_product(node)) (role == kAgain ? again : once) += role != "gradient of";
  }
  return once > 0 ? static_cast<double>(again) / static_cast<double>(once) : 0;
}

}  // namespace amp
