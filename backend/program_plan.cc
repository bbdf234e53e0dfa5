// plan_program() plans the memory of a Program. It merges values that share bytes, pins gradients in the gradient
// arena, computes lifetimes, and assigns offsets (memory_plan.h, gradient_scratch.h). A value's root is the value whose
// bytes it shares: a view's input, or an input that an elementwise node overwrites.

#include "backend/program_plan.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/passes.h"

namespace amp {

namespace {

size_t index(ValueId v) { return static_cast<size_t>(v.index); }
size_t index(NodeId n) { return static_cast<size_t>(n.index); }

// Returns a flag per node: true if the node's output is not stored, because every reader computes the elements that
// it needs (OpDef::deferred). No reader does so in fp64.
std::vector<bool> deferred_nodes(const Graph& g, const ProgramOptions& o) {
  std::vector<bool> out(static_cast<size_t>(g.n_nodes()), false);
  if (!o.device->traits().reads_deferred) return out;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    out[static_cast<size_t>(n)] = node.op->deferred && g.value(node.out[0]).dtype != DType::f64;
    for (size_t i = 0; i < node.in.size(); ++i) {
      if (!node.in[i] || static_cast<int>(i) == node.op->reads_deferred) continue;
      if (const NodeId from = g.value(node.in[i]).producer) out[index(from)] = false;
    }
  }
  for (const auto& x : g.outputs) {
    if (const NodeId from = g.value(x.value).producer) out[index(from)] = false;
  }
  return out;
}

std::vector<bool> cached_nodes(const Graph& g, const ProgramOptions& o) {
  std::vector<bool> out = deferred_nodes(g, o), read(static_cast<size_t>(g.n_values()), false);
  if (!o.cache) return out;
  const bool joined = o.device->traits().merges_qkv;
  for (const auto& x : g.outputs) read[index(x.value)] = true;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    const bool of_param = node.op->name == "Cast" && g.value(node.in[0]).kind == ValueKind::param;
    if (of_param || (joined && joined_params(g, node))) out[static_cast<size_t>(n)] = true;
    for (const ValueId v : node.in) {
      if (v && !out[static_cast<size_t>(n)]) read[index(v)] = true;
    }
  }
  for (int32_t n = 0; joined && n < g.n_nodes(); ++n) {
    const Node& cast = g.node(NodeId{n});
    if (out[static_cast<size_t>(n)] && g.value(cast.in[0]).kind == ValueKind::temp && !read[index(cast.in[0])])
      out[index(g.value(cast.in[0]).producer)] = true;
  }
  return out;
}

// Determines which values share bytes, and the last node that uses them.
class Sharing {
 public:
  Sharing(const Graph& g, const ProgramOptions& o, const std::vector<bool>& cached)
      : g_(g),
        cached_(cached),
        root_(static_cast<size_t>(g.n_values())),
        last_(root_.size(), -1),
        pinned_(root_.size(), nullptr) {
    for (size_t v = 0; v < root_.size(); ++v) root_[v] = static_cast<int32_t>(v);
    for (int32_t n = 0; n < g.n_nodes(); ++n) {
      const Node& node = g.node(NodeId{n});
      if (node.op->view) root_[index(node.out[0])] = root(node.in[0]);
    }
    uses();
    pin_gradients(o);
    overwrite();
    uses();
  }

  int32_t root(ValueId v) const { return root_[index(v)]; }
  int32_t last(int32_t root) const { return last_[static_cast<size_t>(root)]; }
  void* pinned(int32_t root) const { return pinned_[static_cast<size_t>(root)]; }
  bool grad_in_place(size_t i) const { return grad_in_place_[i]; }
  // Returns the node that computes gradient i; invalid if no node does.
  NodeId finished(size_t i) const { return finished_[i]; }
  const std::vector<int32_t>& roots() const { return root_; }
  const std::vector<void*>& pinned() const { return pinned_; }
  const std::vector<bool>& adds() const { return adds_; }

 private:
  void uses() {
    std::fill(last_.begin(), last_.end(), -1);
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      for (const ValueId v : g_.node(NodeId{n}).in) {
        if (v) last_[static_cast<size_t>(root(v))] = n;
      }
      for (const ValueId v : g_.node(NodeId{n}).out) {
        int32_t& l = last_[static_cast<size_t>(root(v))];
        l = std::max(l, n);
      }
    }
    for (const auto& o : g_.outputs) last_[static_cast<size_t>(root(o.value))] = g_.n_nodes();
  }

  // Pins the gradients that can be computed directly in the gradient arena. If gradients are accumulated, the operator
  // must be able to add to existing contents (pin_sums()). Other gradients are moved into the arena after the node that
  // computes them (finished()).
  void pin_gradients(const ProgramOptions& o) {
    grad_in_place_.assign(g_.param_grads.size(), false);
    finished_.assign(g_.param_grads.size(), NodeId{});
    adds_.assign(static_cast<size_t>(g_.n_nodes()), false);
    for (size_t i = 0; i < g_.param_grads.size(); ++i) {
      const Value& v = g_.value(ValueId{root(g_.param_grads[i].value)});
      if (v.kind == ValueKind::temp) finished_[i] = v.producer;
    }
    if (o.accumulate) return pin_sums(o);
    for (size_t i = 0; i < g_.param_grads.size(); ++i) {
      const auto& p = g_.param_grads[i];
      const int32_t r = root(p.value);
      const Value& v = g_.value(ValueId{r});
      const Tensor& grad = o.grads.at(static_cast<size_t>(p.slot));
      if (v.kind != ValueKind::temp || pinned(r) || v.dtype != grad.dtype || numel(v.dims) != grad.numel()) continue;
      pinned_[static_cast<size_t>(r)] = grad.data;
      grad_in_place_[i] = true;
    }
  }

  // Pins outputs of nodes whose kernel can add to existing contents (NAME+=): all outputs, or the outputs from index
  // kFirstSum on. A node is left out if one of these outputs is not a gradient or has other readers.
  void pin_sums(const ProgramOptions& o) {
    std::vector<std::vector<size_t>> grads_of(static_cast<size_t>(g_.n_values()));
    for (size_t i = 0; i < g_.param_grads.size(); ++i)
      grads_of[static_cast<size_t>(root(g_.param_grads[i].value))].push_back(i);
    std::vector<bool> read(grads_of.size(), false);
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      if (g_.node(NodeId{n}).op->view) continue;
      for (const ValueId v : g_.node(NodeId{n}).in) {
        if (v) read[static_cast<size_t>(root(v))] = true;
      }
    }
    for (const auto& out : g_.outputs) read[static_cast<size_t>(root(out.value))] = true;
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      const Node& node = g_.node(NodeId{n});
      const auto first = node.out.begin() + node.attrs.i(kFirstSum, 0);
      const bool sums = std::all_of(first, node.out.end(), [&](ValueId v) {
        const auto& grads = grads_of[index(v)];
        // an output without readers does not have to be a gradient
        if (read[index(v)] || grads.size() != 1) return !read[index(v)] && grads.empty();
        const Tensor& grad = o.grads.at(static_cast<size_t>(g_.param_grads[grads[0]].slot));
        return g_.value(v).dtype == grad.dtype && numel(g_.value(v).dims) == grad.numel();
      });
      const bool wanted = std::any_of(first, node.out.end(), [&](ValueId v) { return !grads_of[index(v)].empty(); });
      if (node.op->view || !sums || !wanted || !o.device->kernel(node.op->name + "+=")) continue;
      adds_[static_cast<size_t>(n)] = true;
      for (auto v = first; v != node.out.end(); ++v) {
        for (const size_t i : grads_of[index(*v)]) {
          pinned_[index(*v)] = o.grads[static_cast<size_t>(g_.param_grads[i].slot)].data;
          grad_in_place_[i] = true;
        }
      }
    }
  }

  void overwrite() {
    // next_view is a linked list of the values that share a root's bytes. Searching root_ for each node would take time
    // quadratic in the number of values.
    std::vector<int32_t> next_view(root_.size(), -1);
    for (size_t v = 0; v < root_.size(); ++v) {
      const auto r = static_cast<size_t>(root_[v]);
      if (r != v) next_view[v] = std::exchange(next_view[r], static_cast<int32_t>(v));
    }
    std::vector<bool> output(root_.size(), false);
    for (const auto& o : g_.outputs) output[static_cast<size_t>(root(o.value))] = true;
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      const Node& node = g_.node(NodeId{n});
      if (!node.op->may_overwrite) continue;
      const Value& y = g_.value(node.out[0]);
      if (pinned(root(node.out[0])) || root(node.out[0]) != node.out[0].index) continue;
      for (const ValueId x : node.in) {
        if (!x) continue;
        const int32_t r = root(x);
        const Value& xv = g_.value(x);
        const Value& rv = g_.value(ValueId{r});
        if (rv.kind != ValueKind::temp || pinned(r) || output[static_cast<size_t>(r)] || last(r) != n) continue;
        if (cached_[index(rv.producer)]) continue;  // x must stay: the ParamCache keeps it for the next run
        if (xv.dtype != y.dtype || xv.dims != y.dims) continue;
        // No other input of the node may view the same bytes with other dims.
        const bool clash =
            std::any_of(node.in.begin(), node.in.end(), [&](ValueId o) { return o && o != x && root(o) == r; });
        if (clash) continue;
        for (int32_t v = node.out[0].index; v >= 0; v = next_view[static_cast<size_t>(v)])
          root_[static_cast<size_t>(v)] = r;
        last_[static_cast<size_t>(r)] = last_[index(node.out[0])];
        break;
      }
    }
  }

  const Graph& g_;
  const std::vector<bool>& cached_;
  std::vector<int32_t> root_, last_;
  std::vector<void*> pinned_;
  std::vector<bool> grad_in_place_, adds_;
  std::vector<NodeId> finished_;
};

// Returns a flag per value: true if the value is a parameter, a constant or cached, and so needs no buffer.
std::vector<bool> at_home(const Graph& g, const std::vector<bool>& cached) {
  std::vector<bool> out(static_cast<size_t>(g.n_values()), false);
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    out[static_cast<size_t>(i)] = v.kind == ValueKind::param ||
                                  (v.kind == ValueKind::constant && v.constant.data() != nullptr) ||
                                  (v.kind == ValueKind::temp && cached[index(v.producer)]);
  }
  return out;
}

// Returns the index of the node that computes the gradient, after which the gradient is moved. Returns n_nodes() if no
// executed node computes it; the gradient is then moved at the end.
size_t finished_after(const Graph& g, const Sharing& sharing, const std::vector<bool>& cached, size_t gradient) {
  const NodeId from = sharing.finished(gradient);
  return from && !cached[index(from)] ? index(from) : static_cast<size_t>(g.n_nodes());
}

// Returns a span of the gradient arena for each gradient of a parameter. Nothing writes to the span until the node that
// computes this gradient runs, so the span may hold activations until then.
std::vector<ScratchSpan> gradient_spans(const Graph& g, const Sharing& sharing, const ProgramOptions& o,
                                        const ProgramPlan& plan) {
  std::vector<ScratchSpan> out;
  for (size_t i = 0; i < g.param_grads.size(); ++i) {
    const Tensor& grad = o.grads.at(static_cast<size_t>(g.param_grads[i].slot));
    const auto written = static_cast<int32_t>(finished_after(g, sharing, plan.cached, i));
    if (grad.data && grad.bytes() > 0) out.push_back({static_cast<char*>(grad.data), grad.bytes(), written});
  }
  return out;
}

// Plans a buffer for each root that is neither pinned nor at_home(), and for each workspace, which lives for one node.
void plan_buffers(const Graph& g, const Sharing& sharing, const ProgramOptions& o, ProgramPlan& plan) {
  const std::vector<bool> home = at_home(g, plan.cached);
  plan.buffer.assign(home.size(), -1);
  plan.workspace.assign(static_cast<size_t>(g.n_nodes()), -1);
  const auto want_buffer = [&](ValueId v, int32_t first) {
    const int32_t r = sharing.root(v);
    int& buffer = plan.buffer[static_cast<size_t>(r)];
    if (buffer >= 0 || home[static_cast<size_t>(r)] || sharing.pinned(r)) return;
    const Value& x = g.value(ValueId{r});
    buffer = static_cast<int>(plan.buffers.size());
    plan.buffers.push_back({checked_mul(numel(x.dims), size_of(x.dtype)), first, std::max(sharing.last(r), first)});
  };
  for (int32_t i = 0; i < g.n_values(); ++i) {
    if (g.value(ValueId{i}).kind == ValueKind::input) want_buffer(ValueId{i}, 0);
  }
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (plan.cached[static_cast<size_t>(n)]) continue;
    for (const ValueId v : node.out) want_buffer(v, n);
    const int64_t bytes = o.device->workspace(g, node);
    if (bytes > 0) {
      plan.workspace[static_cast<size_t>(n)] = static_cast<int>(plan.buffers.size());
      plan.buffers.push_back({bytes, n, n});
    }
  }
  if (o.gradients_are_scratch && !o.accumulate) place_in_gradients(plan.buffers, gradient_spans(g, sharing, o, plan));
  plan.arena_bytes = plan_memory(plan.buffers);
}

}  // namespace

std::optional<JoinedParams> joined_params(const Graph& g, const Node& cast) {
  if (cast.op->name != "Cast" || g.value(cast.in[0]).kind != ValueKind::temp) return std::nullopt;
  const Node& concat = g.node(g.value(cast.in[0]).producer);
  if (concat.op->name != "Concat") return std::nullopt;
  JoinedParams out;
  out.axis = static_cast<size_t>(concat.attrs.i("axis", 0));
  for (const ValueId v : concat.in) {
    const Value& part = g.value(v);
    const Value& param = g.value(skip_views(g, v));
    if (param.kind != ValueKind::param || param.dtype != DType::f32 || part.dtype != DType::f32) return std::nullopt;
    out.parts.push_back({param.slot, part.dims});
  }
  return out;
}

ProgramPlan plan_program(const Graph& g, const ProgramOptions& o) {
  ProgramPlan plan;
  plan.cached = cached_nodes(g, o);
  const Sharing sharing(g, o, plan.cached);
  plan.root = sharing.roots();
  plan.pinned = sharing.pinned();
  plan.adds = sharing.adds();
  plan_buffers(g, sharing, o, plan);
  const size_t after_all = static_cast<size_t>(g.n_nodes());
  plan.moved_after.resize(after_all + 1);
  plan.finished_after.resize(after_all + 1);
  for (size_t i = 0; i < g.param_grads.size(); ++i) {
    const size_t after = finished_after(g, sharing, plan.cached, i);
    plan.finished_after[after].push_back(i);
    if (!sharing.grad_in_place(i)) plan.moved_after[after].push_back(i);
  }
  return plan;
}

}  // namespace amp
