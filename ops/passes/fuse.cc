// Elementwise fusion (fuse.h). Fuser greedily merges nodes of one output shape and their readers into groups, within
// the limits of a kernel, unless that would create a cycle. Then it writes the groups in an order that respects their
// dependencies.

#include "ops/passes/fuse.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

#include "backend/channels_last.h"
#include "backend/fused_program.h"
#include "base/error.h"
#include "graph/copier.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "ops/dropout.h"
#include "ops/fused_layout.h"

namespace amp {

namespace {

constexpr size_t kSumOperands = 6;  // limit for groups with sums: they keep operands of several rows in registers

bool stored_in_registers(DType t) { return t == DType::f32 || is_low(t) || t == DType::boolean; }

// Returns whether a Fused node can compute n as one of its steps.
bool can_be_step(const Graph& g, const Node& n) {
  if (n.out.size() != 1 || n.in.empty()) return false;
  const auto type = [&](size_t i) { return g.value(n.in[i]).dtype; };
  for (size_t i = 0; i < n.in.size(); ++i) {
    if (!n.in[i] || !stored_in_registers(type(i))) return false;
  }
  for (const auto& [name, value] : n.attrs.items()) {
    if (!FusedProgram::can_hold(value)) return false;
  }
  const Value& y = g.value(n.out[0]);
  if (!stored_in_registers(y.dtype) || numel(y.dims) == 0) return false;
  const auto floats = [&](size_t from) {
    for (size_t i = from; i < n.in.size(); ++i) {
      if (!is_float(type(i))) return false;
    }
    return true;
  };
  if (n.op->name == "Cast") return g.value(n.in[0]).kind != ValueKind::param;
  if (n.op->name == "Dropout") return !has_channels_last(n.attrs) && floats(0) && is_float(y.dtype);
  if (n.op->name == "Where") return n.in.size() == 3 && type(0) == DType::boolean && floats(1) && is_float(y.dtype);
  const FunctorInfo* f = find_functor(n.op->name);
  if (!f || f->arity != n.in.size() || (y.dtype == DType::boolean) != (f->predicate || f->on_booleans)) return false;
  return f->on_booleans ? std::none_of(n.in.begin(), n.in.end(), [&](ValueId v) { return is_float(g.value(v).dtype); })
                        : floats(0);
}

class Fuser {
 public:
  Fuser(const Graph& g, const FuseLimits& limits)
      : g_(g), limits_(limits), readers_(static_cast<size_t>(g.n_values())), kept_(readers_.size(), false) {
    const auto n = static_cast<size_t>(g.n_nodes());
    group_.resize(n);
    members_.resize(n);
    seen_.assign(n, -1);
    for (size_t i = 0; i < n; ++i) {
      group_[i] = static_cast<int>(i);
      members_[i] = {static_cast<int>(i)};
      for (const ValueId v : node(static_cast<int>(i)).in) {
        if (v) readers_[index(v)].push_back(static_cast<int>(i));
      }
    }
    for (const auto& o : g.outputs) kept_[index(o.value)] = true;
    for (const auto& p : g.param_grads) kept_[index(p.value)] = true;
  }

  void group() {
    for (int n = 0; n < g_.n_nodes(); ++n) {
      if (!can_be_step(g_, node(n))) continue;
      for (const ValueId v : node(n).in) {
        const int from = producer(v);
        if (from < 0 || group_of(from) == group_of(n) || !can_be_step(g_, node(from)) ||
            g_.value(v).dims != g_.value(node(n).out[0]).dims)
          continue;
        if (may_join(group_of(from), group_of(n))) join(group_of(from), group_of(n));
      }
    }
  }

  // Adds each column sum to the group that stores the sum's operand, so that the operand is not loaded again for the
  // sum.
  void add_sums() {
    for (int n = 0; n < g_.n_nodes(); ++n) {
      const Node& sum = node(n);
      if (sum.op->name != kFusedSum || sum.in.size() != 1) continue;
      const ValueId x = sum.in[0];
      const int from = producer(x);
      if (from < 0 || !is_float(g_.value(x).dtype) || !can_be_step(g_, node(from)) ||
          !stored_in_registers(g_.value(sum.out[0]).dtype))
        continue;
      const int group = group_of(from);
      if (members(group).size() >= limits_.steps || !sums_along(group, sum)) continue;
      const auto inside = [&](int m) { return m >= 0 && (group_of(m) == group || m == n); };
      size_t outputs = 1;
      for (const int m : members(group)) outputs += leaves(m, inside);
      if (outputs > limits_.outputs || !leaves(from, inside) || path_around(n, group) || path_around(group, n))
        continue;
      join(n, group);
    }
  }

  Graph rebuild() {
    std::vector<int> waits(members_.size(), 0);
    std::vector<std::set<int>> after(members_.size());
    for (size_t i = 0; i < members_.size(); ++i) {
      for (const int m : members_[i]) {
        for (const ValueId v : node(m).in) {
          const int from = producer(v);
          if (from >= 0 && group_of(from) != static_cast<int>(i) &&
              after[static_cast<size_t>(group_of(from))].insert(static_cast<int>(i)).second)
            ++waits[i];
        }
      }
    }
    // A group is placed at the position of its last member, or before the first reader of the group if that is earlier.
    // A group of one node keeps the node's position.
    using Ready = std::pair<int, int>;
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    const auto key = [&](size_t i) {
      int at = 2 * members_[i].back();
      for (const int m : members_[i]) {
        for (const int r : readers_[index(node(m).out[0])]) {
          if (group_of(r) != static_cast<int>(i)) at = std::min(at, 2 * r - 1);
        }
        if (members_[i].size() == 1) at = 2 * m;
      }
      return at;
    };
    for (size_t i = 0; i < members_.size(); ++i) {
      if (!members_[i].empty() && waits[i] == 0) ready.emplace(key(i), static_cast<int>(i));
    }
    size_t placed = 0;
    while (!ready.empty()) {
      const auto i = static_cast<size_t>(ready.top().second);
      ready.pop();
      place(i);
      placed += members_[i].size();
      for (const int next : after[i]) {
        if (--waits[static_cast<size_t>(next)] == 0) ready.emplace(key(static_cast<size_t>(next)), next);
      }
    }
    check(placed == static_cast<size_t>(g_.n_nodes()), "fusing made a circle");
    map_.finish();
    return std::move(out_);
  }

 private:
  static size_t index(ValueId v) { return static_cast<size_t>(v.index); }
  const Node& node(int n) const { return g_.node(NodeId{n}); }
  int producer(ValueId v) const { return v ? g_.value(v).producer.index : -1; }
  int group_of(int n) const { return group_[static_cast<size_t>(n)]; }
  const std::vector<int>& members(int group) const { return members_[static_cast<size_t>(group)]; }

  bool may_join(int a, int b) {
    std::vector<int> all;
    std::merge(members(a).begin(), members(a).end(), members(b).begin(), members(b).end(), std::back_inserter(all));
    if (all.size() > limits_.steps) return false;
    std::set<int> inputs;
    size_t outputs = 0;
    const auto inside = [&](int n) { return n >= 0 && (group_of(n) == a || group_of(n) == b); };
    for (const int m : all) {
      for (const ValueId v : node(m).in) {
        if (!inside(producer(v))) inputs.insert(v.index);
      }
      if (leaves(m, inside)) ++outputs;
    }
    return inputs.size() <= limits_.inputs && outputs <= limits_.outputs && !path_around(a, b) && !path_around(b, a);
  }
  // Returns whether the group can add in the same order as the sum's own kernel. All sums of a group have the same
  // shape.
  bool sums_along(int group, const Node& sum) const {
    const Dims& dims = g_.value(sum.in[0]).dims;
    const ReduceShape shape(dims, sum.attrs.ints("axes"));
    std::vector<Dims> operands;
    std::vector<int64_t> dropout_rows;
    for (const int m : members(group)) {
      const Node& n = node(m);
      if (n.op->name == kFusedSum && !(ReduceShape(dims, n.attrs.ints("axes")) == shape)) return false;
      if (n.op->name == "Dropout") dropout_rows.push_back(DropoutShape(n.attrs, numel(dims)).per_row);
      for (const ValueId v : n.in) {
        if (producer(v) < 0 || group_of(producer(v)) != group) operands.push_back(g_.value(v).dims);
      }
    }
    return operands.size() <= kSumOperands &&
           can_sum_along(shape, in_fours(make_broadcast_loop(dims, operands), dropout_rows));
  }

  template <class Inside>
  bool leaves(int m, const Inside& inside) const {
    const ValueId y = node(m).out[0];
    const auto& readers = readers_[index(y)];
    return kept_[index(y)] || std::any_of(readers.begin(), readers.end(), [&](int r) { return !inside(r); });
  }

  // Returns whether a path from a to b passes through a node outside of both groups. If so, merging a and b would
  // create a cycle.
  bool path_around(int a, int b) {
    ++stamp_;
    std::vector<int> todo;
    const auto look = [&](int group, bool directly) {
      for (const int m : members(group)) {
        for (const ValueId v : node(m).in) {
          const int from = producer(v);
          if (from < 0) continue;
          const int next = group_of(from);
          if (next == a && !directly) return true;
          if (next == a || next == b || seen_[static_cast<size_t>(next)] == stamp_) continue;
          seen_[static_cast<size_t>(next)] = stamp_;
          todo.push_back(next);
        }
      }
      return false;
    };
    look(b, true);
    while (!todo.empty()) {
      const int group = todo.back();
      todo.pop_back();
      if (look(group, false)) return true;
    }
    return false;
  }

  void join(int a, int b) {
    std::vector<int>&from = members_[static_cast<size_t>(a)], &to = members_[static_cast<size_t>(b)], all;
    std::merge(from.begin(), from.end(), to.begin(), to.end(), std::back_inserter(all));
    for (const int m : from) group_[static_cast<size_t>(m)] = b;
    from.clear();
    to = std::move(all);
  }

  void place(size_t group) {
    std::vector<int> nodes = members_[group];
    std::stable_partition(nodes.begin(), nodes.end(), [&](int m) { return node(m).op->name != kFusedSum; });
    if (nodes.size() == 1) {
      const Node& n = node(nodes[0]);
      made(n.out, out_.add_copy(n, map_(n.in), types_of(g_, n.out)));
      return;
    }
    const auto inside = [&](int n) { return n >= 0 && group_of(n) == static_cast<int>(group); };
    FusedProgram p;
    std::vector<ValueId> in, outputs;
    std::map<int, int> number;  // value of the old graph -> number of the value in the program
    for (const int m : nodes) {
      for (const ValueId v : node(m).in) {
        if (inside(producer(v)) || !number.emplace(v.index, static_cast<int>(in.size())).second) continue;
        in.push_back(map_(v));
      }
    }
    p.n_in = static_cast<int>(in.size());
    for (const int m : nodes) {
      const Node& n = node(m);
      FusedStep s;
      s.op = n.op->name;
      for (const ValueId v : n.in) s.in.push_back(number.at(v.index));
      s.type = g_.value(n.out[0]).dtype;
      s.out = leaves(m, inside);
      if (s.op == kFusedSum)
        s.attrs = fused_sum_attrs(n.attrs);
      else if (s.op != "Cast")
        s.attrs = n.attrs;
      if (s.out) outputs.push_back(n.out[0]);
      number[n.out[0].index] = p.value_of(p.steps.size());
      p.steps.push_back(std::move(s));
    }
    made(outputs, out_.add_node(core_op("Fused"), std::move(in), p.attrs(), node(nodes.back()).origin));
  }
  void made(const std::vector<ValueId>& old, NodeId n) {
    const std::vector<ValueId> now = out_.node(n).out;
    check(now.size() == old.size(), "fusing: outputs are missing");
    for (size_t i = 0; i < old.size(); ++i) {
      if (!old[i]) continue;
      check(out_.value(now[i]).dims == g_.value(old[i]).dims && out_.value(now[i]).dtype == g_.value(old[i]).dtype,
            "fusing: another shape");
      map_.set(old[i], now[i]);
      if (!g_.value(old[i]).name.empty()) out_.set_name(now[i], g_.value(old[i]).name);
    }
  }

  const Graph& g_;
  const FuseLimits limits_;
  std::vector<std::vector<int>> readers_;  // indexed by value: nodes that read the value
  std::vector<bool> kept_;                 // indexed by value: true for outputs and parameters' gradients
  std::vector<int> group_;                 // indexed by node: the node's group
  std::vector<std::vector<int>> members_;  // indexed by group: the group's nodes, in order
  std::vector<int> seen_;
  int stamp_ = -1;
  Graph out_;
  ValueMap map_{g_, out_};
};

}  // namespace

Graph fuse_elementwise(const Graph& original, const FuseLimits& limits) {
  const Graph g = prune(original);  // removes unused nodes, because every group must have an output
  Fuser f(g, limits);
  f.group();
  f.add_sums();
  return f.rebuild();
}

}  // namespace amp
