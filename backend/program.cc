// Program builds a flat list of closures (steps) from a graph and its ProgramPlan, and runs it. The constructor first
// assigns the addresses of all values. Then it appends the steps of each node: checks of indices, the kernel, moves of
// gradients into the gradient arena, and reports to the GradientWatch. On a GPU the list is recorded once as a CUDA
// graph. On the CPU the number of threads is chosen by timing.

#include "backend/program.h"

#include <algorithm>
#include <chrono>

#include "backend/channels_last.h"
#include "backend/gradient_watch.h"
#include "backend/indices.h"
#include "backend/parallel.h"
#include "backend/program_plan.h"
#include "base/error.h"
#include "base/steady_seconds.h"
#include "graph/node_fault.h"

namespace amp {

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
  const ProgramPlan plan = plan_program(*graph_, o);
  place_values(plan, o);
  for (int32_t i = 0; i < graph_->n_values(); ++i) {
    const Value& v = graph_->value(ValueId{i});
    if (v.kind == ValueKind::input) inputs_[v.name] = {v.name, tensor(ValueId{i}), {}};
  }
  emit_steps(plan, o);
  for (const auto& out : graph_->outputs) outputs_[out.name] = tensor(out.value);
}

void Program::place_values(const ProgramPlan& plan, const ProgramOptions& o) {
  const Graph& g = *graph_;
  const bool host = device_->traits().host_memory;
  if (!host) {
    owned_.push_back(device_->allocate(sizeof(RunState)));
    device_state_ = owned_.back().get();
  }
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    void*& at = address_[static_cast<size_t>(i)];
    if (v.kind == ValueKind::param) at = o.params.at(static_cast<size_t>(v.slot)).data;
    if (v.kind != ValueKind::constant) continue;
    at = const_cast<void*>(v.constant.data());
    if (host) continue;
    owned_.push_back(copy_of(v.constant, o));
    at = owned_.back().get();
  }
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    if (!plan.cached[static_cast<size_t>(n)]) continue;
    place_copy(g.node(NodeId{n}), o);
  }
  arena_bytes_ = plan.arena_bytes;
  o.arena->require(arena_bytes_);
  arena_ = static_cast<char*>(o.arena->base());
  for (size_t i = 0; i < address_.size(); ++i) {
    if (address_[i]) continue;
    const auto root = static_cast<size_t>(plan.root[i]);
    const int buffer = plan.buffer[root];
    if (plan.pinned[root])
      address_[i] = plan.pinned[root];
    else
      address_[i] = buffer >= 0 ? place(plan.buffers[static_cast<size_t>(buffer)]) : address_[root];
  }
}

// Returns a copy of a constant in the device's memory; the shared copy if there is one.
DeviceMemory Program::copy_of(const HostTensor& constant, const ProgramOptions& o) const {
  DeviceMemory* shared = nullptr;
  if (o.constants) {
    if (const auto it = o.constants->find(constant.data()); it != o.constants->end()) shared = &it->second;
  }
  if (shared && *shared) return *shared;
  const DeviceMemory made = device_->allocate(std::max<int64_t>(constant.bytes(), 1));
  device_->upload(made.get(), constant.data(), constant.bytes());
  if (shared) *shared = made;
  return made;
}

char* Program::place(const BufferLife& b) const { return b.place ? b.place : arena_ + b.offset; }

// Sets the output address of a cached Cast to the copy of its parameter, or of its concatenated parameters, in the
// ParamCache. Other cached nodes (a Concat that only such a Cast reads) are never executed and get no address.
void Program::place_copy(const Node& node, const ProgramOptions& o) {
  const Graph& g = *graph_;
  if (node.op->name != "Cast") return;
  void*& at = address_[static_cast<size_t>(node.out[0].index)];
  const DType type = g.value(node.out[0]).dtype;
  if (const Value& x = g.value(node.in[0]); x.kind == ValueKind::param) {
    at = o.cache->copy(o.params.at(static_cast<size_t>(x.slot)), x.slot, type).data;
    return;
  }
  const JoinedParams joined = *joined_params(g, node);
  std::vector<ParamCache::Part> parts;
  for (const JoinedParams::Part& p : joined.parts)
    parts.push_back({p.slot, {o.params.at(static_cast<size_t>(p.slot)).data, DType::f32, p.dims}});
  at = o.cache->joined(parts, joined.axis, type).data;
}

void Program::emit_steps(const ProgramPlan& plan, const ProgramOptions& o) {
  for (int32_t n = 0; n < graph_->n_nodes(); ++n) {
    if (plan.cached[static_cast<size_t>(n)] || graph_->node(NodeId{n}).op->view) continue;
    emit_node(NodeId{n}, plan, o);
    for (const size_t i : plan.moved_after[static_cast<size_t>(n)]) emit_gradient(i, o);
    report_finished(plan.finished_after[static_cast<size_t>(n)], o);
    if (o.poison) emit_poison(NodeId{n}, plan);
  }
  for (const size_t i : plan.moved_after.back()) emit_gradient(i, o);
  report_finished(plan.finished_after.back(), o);
}

void Program::emit_node(NodeId id, const ProgramPlan& plan, const ProgramOptions& o) {
  const Node& node = graph_->node(id);
  const auto n = static_cast<size_t>(id.index);
  check(!has_channels_last(node.attrs) || !device_->traits().host_memory, "kernels of the CPU have channels first");
  const PrepareKernel prepare = device_->kernel(plan.adds[n] ? node.op->name + "+=" : node.op->name);
  if (!prepare) bug(cat("core operator ", node.op->name, " has no kernel for ", device_->description()));
  KernelArgs args{node,
                  {},
                  {},
                  nullptr,
                  device_state_ ? static_cast<const RunState*>(device_state_) : o.state,
                  device_,
                  o.state ? &o.state->ranks : nullptr};
  for (const ValueId v : node.in) args.in.push_back(tensor(v));
  args.deferred = deferred_input(node, plan);
  for (const ValueId v : node.out) args.out.push_back(tensor(v));
  if (const int w = plan.workspace[n]; w >= 0) args.workspace = place(plan.buffers[static_cast<size_t>(w)]);
  if (!device_->traits().checks_indices) check_indices(node);
  try {
    steps_.push_back({prepare(args), &node, node_work(args, plan.adds[n])});
  } catch (const std::exception&) {
    throw node_fault(node.op->name).at(cat("while preparing ", node.op->name, " (#", node.origin.source_node, ")"));
  }
}

// The operator reads input number OpDef::reads_deferred without computing it first. Returns the
// arguments of the node that would compute this input; null if that node runs as a separate step.
std::shared_ptr<const KernelArgs> Program::deferred_input(const Node& node, const ProgramPlan& plan) const {
  const auto i = static_cast<size_t>(node.op->reads_deferred);
  if (node.op->reads_deferred < 0 || i >= node.in.size() || !node.in[i]) return nullptr;
  const NodeId producer = graph_->value(node.in[i]).producer;
  if (!producer || !graph_->node(producer).op->deferred || !plan.cached[static_cast<size_t>(producer.index)])
    return nullptr;
  auto out = std::make_shared<KernelArgs>(KernelArgs{graph_->node(producer), {}, {}});
  for (const ValueId v : out->node.in) out->in.push_back(tensor(v));
  out->out = {tensor(node.in[i])};
  return out;
}

void Program::emit_gradient(size_t i, const ProgramOptions& o) {
  const Graph::ParamGrad& p = graph_->param_grads[i];
  const Tensor grad = o.grads.at(static_cast<size_t>(p.slot)), v = tensor(p.value);
  const NodeWork work{0, v.bytes() + (o.accumulate ? grad.bytes() : 0), grad.bytes()};
  steps_.push_back({o.accumulate ? device_->add(grad, v) : device_->convert(v, grad), nullptr, work});
}

// Extends the last step of the list, so that it also reports these gradients to the GradientWatch. Does nothing on a
// GPU.
void Program::report_finished(const std::vector<size_t>& gradients, const ProgramOptions& o) {
  if (gradients.empty() || steps_.empty() || !o.state || !device_->traits().host_memory) return;
  struct Finished {
    int slot;
    std::optional<Tensor> rows;
  };
  std::vector<Finished> all;
  for (const size_t i : gradients) all.push_back({graph_->param_grads[i].slot, rows_of(i, o)});
  steps_.back().run = [run = std::move(steps_.back().run), all, state = o.state] {
    run();
    if (!state->watch) return;
    for (const Finished& f : all) state->watch->done(f.slot, f.rows ? &*f.rows : nullptr);
  };
}

// Returns the indices of the nonzero rows of an embedding table's gradient. Returns nullopt for other gradients, and if
// gradients are accumulated.
std::optional<Tensor> Program::rows_of(size_t gradient, const ProgramOptions& o) const {
  const Graph::ParamGrad& p = graph_->param_grads[gradient];
  const Value& v = graph_->value(p.value);
  if (o.accumulate || v.kind != ValueKind::temp) return {};
  const Node& node = graph_->node(v.producer);
  const std::optional<Lookup> lookup = find_lookup(node.op->name);
  if (!lookup || !lookup->scatters || node.attrs.i("outer", 1) != 1 || v.dims.empty()) return {};
  if (node.attrs.i("n", 1) != v.dims[0]) return {};
  return tensor(node.in.at(lookup->indices));
}

// Appends steps that fill with NaN each buffer whose last use is this node.
void Program::emit_poison(NodeId id, const ProgramPlan& plan) {
  for (const BufferLife& b : plan.buffers) {
    if (b.last != id.index) continue;
    steps_.push_back({[this, p = place(b), bytes = b.bytes] { device_->fill(p, 0xff, bytes); }, &graph_->node(id)});
  }
}

static void refuse_outside(const IndexBound& bound, const std::vector<int64_t>& indices, const std::string& where) {
  for (const int64_t i : indices) {
    if (!bound.holds(i)) refuse_index(bound, i, where);
  }
}

// Adds bounds checks if the node is a lookup. Indices that come from an input directly, or through casts, views and
// gathers, are checked by set_input(). Constant indices are checked here, once. Computed indices are checked on the
// device, before the node. A gradient needs no check, because the forward node has checked the same indices.
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
  std::vector<IndexBound>& known =
      root.kind == ValueKind::input ? inputs_.at(root.name).bounds : computed_[indices.index];
  if (std::find(known.begin(), known.end(), bound) != known.end()) return;
  known.push_back(bound);
  if (root.kind != ValueKind::input)
    steps_.push_back({device_->check_indices(tensor(indices), bound, cat("of ", node.op->name)), nullptr});
}

const Program::Input* Program::find_input(const std::string& name) const {
  const auto it = inputs_.find(name);
  return it == inputs_.end() ? nullptr : &it->second;
}

const Tensor* Program::find_output(const std::string& name) const {
  const auto it = outputs_.find(name);
  return it == outputs_.end() ? nullptr : &it->second;
}

static const Program::Input& known_input(const Program& p, const std::string& name) {
  const Program::Input* found = p.find_input(name);
  if (!found) fail(Exit::usage, "E_INPUT", cat("the program has no input '", name, "'"));
  return *found;
}

const Tensor& Program::input(const std::string& name) const { return known_input(*this, name).tensor; }

void Program::set_input(const std::string& name, const HostTensor& value) { write(known_input(*this, name), value); }

const Tensor& Program::output(const std::string& name) const {
  const Tensor* found = find_output(name);
  if (!found) fail(Exit::usage, "E_OUTPUT", cat("the program has no output '", name, "'"));
  return *found;
}

void Program::write(const Input& input, const HostTensor& value) {
  const Tensor& t = input.tensor;
  if (t.dims != value.dims()) {
    fail(Exit::data, "E_DATA_SHAPE",
         cat("input '", input.name, "' has shape ", to_string(value.dims()), ", the model was bound to ",
             to_string(t.dims)));
  }
  if (!input.bounds.empty()) {
    const std::vector<int64_t> v = value.to_ints();
    for (const IndexBound& b : input.bounds) refuse_outside(b, v, cat("of input '", input.name, "'"));
  }
  if (device_->traits().host_memory) return convert(value.dtype(), value.data(), t.dtype, t.data, t.numel());
  const HostTensor same = value.cast(t.dtype);
  device_->upload(t.data, same.data(), same.bytes());
}

void Program::upload_state() {
  if (device_state_ && state_) device_->upload(device_state_, state_, sizeof(RunState));
}

template <class After>
void Program::launch(After&& after) {
  const Step* at = nullptr;
  try {
    for (const Step& s : steps_) {
      at = &s;
      s.run();
      after(s);
    }
  } catch (const Error& e) {
    if (e.exit() != Exit::internal || !at->node) throw;
    throw node_fault(at->node->op->name).at(cat("in ", at->node->op->name, " (#", at->node->origin.source_node, ")"));
  }
}

// Runs all steps. If kernels run on the host, uses the fastest number of threads, or a number that is being timed.
void Program::run_on_host_threads() {
  using Clock = std::chrono::steady_clock;
  const auto all = [this] { launch([](const Step&) {}); };
  const int n = device_->traits().host_memory ? threads_.next(omp_get_max_threads()) : 0;
  if (n == 0) return all();
  const WithThreads during(n);
  const Clock::time_point start = Clock::now();
  all();
  if (threads_.deciding()) threads_.took(std::chrono::duration<double>(Clock::now() - start).count());
}

// The first runs may compile, tune, allocate and validate libraries. Later runs replay the recording, if the device
// made one.
void Program::run() {
  upload_state();
  if (recording_) return recording_->replay();
  if (ran_ && device_state_) {
    recording_ = device_->record([this] { launch([](const Step&) {}); });
    if (recording_) return recording_->replay();
  }
  const int64_t before = device_->unvalidated();
  run_on_host_threads();
  // A recording fixes each node's current implementation, so it is made only after a run that left no node unvalidated.
  // Nodes that receive only zeros are never validated; kMostUndecided limits the number of runs to wait.
  ran_ = device_->unvalidated() == before || ++undecided_runs_ >= kMostUndecided;
}

// Returns a flag per value: true for the gradient of a parameter, and for a value that this gradient is a view of.
std::vector<bool> Program::gradients_of_params() const {
  std::vector<bool> out(address_.size(), false);
  for (const auto& p : graph_->param_grads) {
    ValueId v = p.value;
    out[static_cast<size_t>(v.index)] = true;
    while (graph_->value(v).kind == ValueKind::temp && graph_->node(graph_->value(v).producer).op->view) {
      v = graph_->node(graph_->value(v).producer).in[0];
      out[static_cast<size_t>(v.index)] = true;
    }
  }
  return out;
}

void Program::run(const Observer& see) {
  const std::vector<bool> of_param = gradients_of_params();
  upload_state();
  launch([&](const Step& s) {
    for (size_t i = 0; s.node && i < s.node->out.size(); ++i) {
      const ValueId v = s.node->out[i];
      if (!v || of_param[static_cast<size_t>(v.index)]) continue;
      const HostTensor t = device_->on_host(tensor(v));
      see(*s.node, i, Tensor{const_cast<void*>(t.data()), t.dtype(), t.dims()});
    }
  });
}

std::vector<Program::TimedStep> Program::run_timed() {
  std::vector<TimedStep> out;
  out.reserve(steps_.size());
  const int n = device_->traits().host_memory ? threads_.chosen() : 0;
  const WithThreads during(n > 0 ? n : omp_get_max_threads());
  upload_state();
  double begin = steady_seconds();
  launch([&](const Step& s) {
    device_->synchronize();
    const double end = steady_seconds();
    std::string_view op = s.work.written > 0 ? "AccumulateGrad" : "CheckIndices";
    if (s.node) op = s.node->op->name;
    out.push_back({op, s.node, s.work, begin, end});
    begin = end;
  });
  return out;
}

}  // namespace amp
