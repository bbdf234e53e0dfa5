#include "backend/program.h"

#include <algorithm>
#include <chrono>

#include "backend/indices.h"
#include "backend/memory_plan.h"
#include "base/error.h"
#include "graph/node_fault.h"

namespace amp {

namespace {

// Which buffer each value lives in, and for how long.
class Layout {
 public:
  Layout(const Graph& g, const ProgramOptions& o)
      : g_(g), root_(static_cast<size_t>(g.n_values())), last_(root_.size(), -1), pinned_(root_.size(), nullptr) {
    for (size_t v = 0; v < root_.size(); ++v) root_[v] = static_cast<int32_t>(v);
    for (int32_t n = 0; n < g.n_nodes(); ++n) {
      const Node& node = g.node(NodeId{n});
      if (node.op->view) root_[index(node.out[0])] = root(node.in[0]);
    }
    uses();
    pin_gradients(o);
    overwrite(o);
    uses();
  }

  int32_t root(ValueId v) const { return root_[index(v)]; }
  int32_t last(int32_t root) const { return last_[static_cast<size_t>(root)]; }
  void* pinned(int32_t root) const { return pinned_[static_cast<size_t>(root)]; }
  bool grad_in_place(size_t i) const { return grad_in_place_[i]; }
  NodeId finished(size_t i) const { return finished_[i]; }  // the node that computes gradient i; invalid: no node does
  // its outputs to what is in the gradient arena
  bool adds(int32_t node) const { return adds_[static_cast<size_t>(node)]; }

 private:
  static size_t index(ValueId v) { return static_cast<size_t>(v.index); }

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

  // A gradient that is simply written may be computed right in the gradient arena; one that is to be added may be,
  // where its operator can add to what is there. All others are moved as soon as they are known: finished().
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

  // Nodes all of whose outputs are gradients that nobody else reads, if there is a kernel that adds to them.
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
      const bool sums = std::all_of(node.out.begin(), node.out.end(), [&](ValueId v) {
        const auto& grads = grads_of[index(v)];
        // what nobody wants may be anything
        if (read[index(v)] || grads.size() != 1) return !read[index(v)] && grads.empty();
        const Tensor& grad = o.grads.at(static_cast<size_t>(g_.param_grads[grads[0]].slot));
        return g_.value(v).dtype == grad.dtype && numel(g_.value(v).dims) == grad.numel();
      });
      const bool wanted =
          std::any_of(node.out.begin(), node.out.end(), [&](ValueId v) { return !grads_of[index(v)].empty(); });
      if (node.op->view || !sums || !wanted || !o.device->kernel(node.op->name + "+=")) continue;
      adds_[static_cast<size_t>(n)] = true;
      for (const ValueId v : node.out) {
        for (const size_t i : grads_of[index(v)]) {
          pinned_[index(v)] = o.grads[static_cast<size_t>(g_.param_grads[i].slot)].data;
          grad_in_place_[i] = true;
        }
      }
    }
  }

  void overwrite(const ProgramOptions& o) {
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
        const Node& from = g_.node(rv.producer);
        // the cache's, kept for the next run
        if (o.cache && from.op->name == "Cast" && g_.value(from.in[0]).kind == ValueKind::param) continue;
        if (xv.dtype != y.dtype || xv.dims != y.dims) continue;
        // No other input of the node may view the same bytes under other dims.
        const bool clash =
            std::any_of(node.in.begin(), node.in.end(), [&](ValueId o) { return o && o != x && root(o) == r; });
        if (clash) continue;
        for (int32_t& v : root_) {
          if (v == node.out[0].index) v = r;
        }
        last_[static_cast<size_t>(r)] = last_[index(node.out[0])];
        break;
      }
    }
  }

  const Graph& g_;
  std::vector<int32_t> root_, last_;
  std::vector<void*> pinned_;
  std::vector<bool> grad_in_place_, adds_;
  std::vector<NodeId> finished_;
};

}  // namespace

Tensor Program::tensor(ValueId v) const {
  if (!v) return {};
  const Value& x = graph_->value(v);
  return Tensor{address_[static_cast<size_t>(v.index)], x.dtype, x.dims};
}

Program::Program(std::shared_ptr<const Graph> graph, const ProgramOptions& o)
    : device_(o.device),
      graph_(std::move(graph)),
      state_(o.state),
      address_(static_cast<size_t>(graph_->n_values()), nullptr) {
  const Graph& g = *graph_;
  const Layout layout(g, o);
  const bool host = device_->kind() == DeviceKind::cpu;
  if (!host) {
    owned_.push_back(device_->allocate(sizeof(RunState)));
    device_state_ = owned_.back().get();
  }

  // Values with a home of their own.
  std::vector<bool> cached(address_.size(), false);
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    if (v.kind == ValueKind::constant) {
      address_[static_cast<size_t>(i)] = const_cast<void*>(v.constant.data());
      if (host) continue;
      owned_.push_back(device_->allocate(std::max<int64_t>(v.constant.bytes(), 1)));
      address_[static_cast<size_t>(i)] = owned_.back().get();
      device_->upload(owned_.back().get(), v.constant.data(), v.constant.bytes());
    }
    if (v.kind == ValueKind::param) address_[static_cast<size_t>(i)] = o.params.at(static_cast<size_t>(v.slot)).data;
  }
  std::vector<bool> skip(static_cast<size_t>(g.n_nodes()), false);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (!o.cache || node.op->name != "Cast" || g.value(node.in[0]).kind != ValueKind::param) continue;
    const int slot = g.value(node.in[0]).slot;
    const size_t out = static_cast<size_t>(node.out[0].index);
    address_[out] = o.cache->copy(o.params.at(static_cast<size_t>(slot)), slot, g.value(node.out[0]).dtype).data;
    cached[out] = skip[static_cast<size_t>(n)] = true;
  }

  // Lifetimes of everything else, by root; workspaces live for one step.
  std::vector<BufferLife> buffers;
  std::vector<int> buffer_of(address_.size(), -1);
  const auto want_buffer = [&](ValueId v, int32_t first) {
    const int32_t r = layout.root(v);
    const size_t ri = static_cast<size_t>(r);
    if (buffer_of[ri] >= 0 || address_[ri] || cached[ri] || layout.pinned(r)) return;
    const Value& x = g.value(ValueId{r});
    buffer_of[ri] = static_cast<int>(buffers.size());
    buffers.push_back({checked_mul(numel(x.dims), size_of(x.dtype)), first, std::max(layout.last(r), first)});
  };
  for (int32_t i = 0; i < g.n_values(); ++i) {
    if (g.value(ValueId{i}).kind == ValueKind::input) want_buffer(ValueId{i}, 0);
  }
  std::vector<int> workspace(static_cast<size_t>(g.n_nodes()), -1);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (skip[static_cast<size_t>(n)]) continue;
    for (const ValueId v : node.out) want_buffer(v, n);
    const int64_t bytes = device_->workspace(g, node);
    if (bytes > 0) {
      workspace[static_cast<size_t>(n)] = static_cast<int>(buffers.size());
      buffers.push_back({bytes, n, n});
    }
  }
  arena_bytes_ = plan_memory(buffers);
  o.arena->require(arena_bytes_);
  char* base = static_cast<char*>(o.arena->base());
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const size_t vi = static_cast<size_t>(i);
    if (address_[vi]) continue;
    const int32_t r = layout.root(ValueId{i});
    const size_t ri = static_cast<size_t>(r);
    if (layout.pinned(r))
      address_[vi] = layout.pinned(r);
    else if (buffer_of[ri] >= 0)
      address_[vi] = base + buffers[static_cast<size_t>(buffer_of[ri])].offset;
    else
      address_[vi] = address_[ri];
  }

  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    if (v.kind == ValueKind::input) inputs_[v.name] = tensor(ValueId{i});
  }
  std::vector<std::vector<size_t>> moved_after(static_cast<size_t>(g.n_nodes()) + 1);
  for (size_t i = 0; i < g.param_grads.size(); ++i) {
    const NodeId from = layout.finished(i);
    if (!layout.grad_in_place(i))
      moved_after[from && !skip[static_cast<size_t>(from.index)] ? static_cast<size_t>(from.index)
                                                                 : moved_after.size() - 1]
          .push_back(i);
  }
  const auto move_gradient = [&](size_t i) {
    const Tensor grad = o.grads.at(static_cast<size_t>(g.param_grads[i].slot)), v = tensor(g.param_grads[i].value);
    steps_.push_back({o.accumulate ? device_->add(grad, v) : device_->convert(v, grad), nullptr});
  };
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (skip[static_cast<size_t>(n)] || node.op->view) continue;
    const PrepareKernel prepare = device_->kernel(layout.adds(n) ? node.op->name + "+=" : node.op->name);
    if (!prepare) bug(cat("core operator ", node.op->name, " has no kernel for ", device_->description()));
    KernelArgs args{node, {}, {}, nullptr, host ? o.state : static_cast<const RunState*>(device_state_), device_};
    for (const ValueId v : node.in) args.in.push_back(tensor(v));
    for (const ValueId v : node.out) args.out.push_back(tensor(v));
    const int w = workspace[static_cast<size_t>(n)];
    if (w >= 0) args.workspace = base + buffers[static_cast<size_t>(w)].offset;
    if (!host) check_indices(node);
    try {
      steps_.push_back({prepare(args), &node});
    } catch (const std::exception&) {
      throw node_fault(node.op->name).at(cat("while preparing ", node.op->name, " (#", node.origin.source_node, ")"));
    }
    for (const size_t i : moved_after[static_cast<size_t>(n)]) move_gradient(i);
    if (o.poison) {  // what dies here becomes NaN
      for (size_t b = 0; b < buffers.size(); ++b) {
        if (buffers[b].last != n) continue;
        char* p = base + buffers[b].offset;
        const int64_t bytes = buffers[b].bytes;
        steps_.push_back({[this, p, bytes] { device_->fill(p, 0xff, bytes); }, &node});
      }
    }
  }
  for (const size_t i : moved_after.back()) move_gradient(i);
  for (const auto& out : g.outputs) outputs_[out.name] = tensor(out.value);
}

static void refuse_outside(const IndexBound& bound, const std::vector<int64_t>& indices, const std::string& where) {
  for (const int64_t i : indices) {
    if (!bound.holds(i)) refuse_index(bound, i, where);
  }
}

// Inputs that are indices as they come, or through casts, views and gathers, are checked by set_input(); constants
// here, once; computed ones on the device, before the node. A gradient looks up what its node has looked up.
void Program::check_indices(const Node& node) {
  const Graph& g = *graph_;
  const std::optional<Lookup> lookup = find_lookup(node.op->name);
  if (!lookup) return;
  const ValueId indices = node.in.at(lookup->indices);
  const IndexBound bound = lookup->bound(g, node);
  ValueId v = indices;
  while (g.value(v).kind == ValueKind::temp) {
    const Node& from = g.node(g.value(v).producer);
    const std::optional<Lookup> moved = find_lookup(from.op->name);
    if (!from.op->view && from.op->name != "Cast" && !(moved && moved->moves)) break;
    v = from.in[0];
  }
  const Value& root = g.value(v);
  if (root.kind == ValueKind::constant)
    return refuse_outside(bound, root.constant.to_ints(), cat("of ", node.op->name));
  std::vector<IndexBound>& known = root.kind == ValueKind::input ? bounds_[root.name] : computed_[indices.index];
  if (std::find(known.begin(), known.end(), bound) != known.end()) return;
  known.push_back(bound);
  if (root.kind != ValueKind::input)
    steps_.push_back({device_->check_indices(tensor(indices), bound, cat("of ", node.op->name)), nullptr});
}

const Tensor& Program::input(const std::string& name) const {
  const auto it = inputs_.find(name);
  if (it == inputs_.end()) fail(Exit::usage, "E_INPUT", cat("the program has no input '", name, "'"));
  return it->second;
}

const Tensor& Program::output(const std::string& name) const {
  const auto it = outputs_.find(name);
  if (it == outputs_.end()) fail(Exit::usage, "E_OUTPUT", cat("the program has no output '", name, "'"));
  return it->second;
}

void Program::set_input(const std::string& name, const HostTensor& value) {
  const Tensor& t = input(name);
  if (t.dims != value.dims()) {
    fail(Exit::data, "E_DATA_SHAPE",
         cat("input '", name, "' has shape ", to_string(value.dims()), ", the model was bound to ", to_string(t.dims)));
  }
  if (device_->kind() == DeviceKind::cpu) return convert(value.dtype(), value.data(), t.dtype, t.data, t.numel());
  if (const auto known = bounds_.find(name); known != bounds_.end()) {
    const std::vector<int64_t> v = value.to_ints();
    for (const IndexBound& b : known->second) refuse_outside(b, v, cat("of input '", name, "'"));
  }
  const HostTensor same = value.cast(t.dtype);
  device_->upload(t.data, same.data(), same.bytes());
}

void Program::launch() {
  const Step* at = nullptr;
  try {
    for (const Step& s : steps_) {
      at = &s;
      s.run();
    }
  } catch (const Error& e) {
    if (e.exit() != Exit::internal || !at->node) throw;
    throw node_fault(at->node->op->name).at(cat("in ", at->node->op->name, " (#", at->node->origin.source_node, ")"));
  }
}

// The first runs are those that may compile, tune, allocate and prove libraries; then it is one recorded launch.
void Program::run() {
  if (device_state_ && state_) device_->upload(device_state_, state_, sizeof(RunState));
  if (recording_) return recording_->replay();
  if (ran_ && device_state_) {
    recording_ = device_->record([this] { launch(); });
    if (recording_) return recording_->replay();
  }
  const int64_t before = device_->unvalidated();
  launch();
  // Recorded, a node would stay with what it is computed by now. Some never see anything but zeros.
  ran_ = device_->unvalidated() == before || ++undecided_runs_ >= kMostUndecided;
}

void Program::run(const Observer& see) {
  if (device_state_ && state_) device_->upload(device_state_, state_, sizeof(RunState));
  std::vector<bool> of_param(address_.size(), false);
  for (const auto& p : graph_->param_grads) {
    ValueId v = p.value;
    of_param[static_cast<size_t>(v.index)] = true;
    while (graph_->value(v).kind == ValueKind::temp && graph_->node(graph_->value(v).producer).op->view) {
      v = graph_->node(graph_->value(v).producer).in[0];
      of_param[static_cast<size_t>(v.index)] = true;
    }
  }
  for (const Step& s : steps_) {
    s.run();
    for (size_t i = 0; s.node && i < s.node->out.size(); ++i) {
      const ValueId v = s.node->out[i];
      if (!v || of_param[static_cast<size_t>(v.index)]) continue;
      if (!device_state_) {
        see(*s.node, i, tensor(v));
        continue;
      }
      HostTensor copy = device_->read(tensor(v));
      see(*s.node, i, Tensor{copy.mutable_data(), copy.dtype(), copy.dims()});
    }
  }
}

std::map<std::string, double> Program::profile() {
  std::map<std::string, double> seconds;
  for (const Step& s : steps_) {
    const auto start = std::chrono::steady_clock::now();
    s.run();
    device_->synchronize();
    seconds[s.node ? s.node->op->name : "AccumulateGrad"] +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return seconds;
}

}  // namespace amp
