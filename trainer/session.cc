#include "trainer/session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/interpreter.h"
#include "backend/memory_phase.h"
#include "base/error.h"
#include "base/text.h"
#include "graph/limits.h"
#include "ops/statistics.h"
#include "trainer/flat_views.h"

namespace amp {

Session::Session(const SourceGraph& source, const SessionOptions& options)
    : source_(source),
      options_(options),
      table_(source),
      layout_(options.decay_exclude),
      reached_(table_.size(), false),
      arena_(options.device->make_arena()),
      cache_(*options.device) {
  for (const int v : table_.source_value) {
    const SourceValue& s = source.values[static_cast<size_t>(v)];
    Chunk& c = layout_.add(s.name, s.data.dims());
    c.frozen = !s.trainable;
  }
  layout_.arrange();
  params_ = in_phase("the weights", [&] { return allocate(layout_.size()); });
  for (size_t i = 0; i < table_.size(); ++i) {
    const HostTensor data = source.values[static_cast<size_t>(table_.source_value[i])].data.cast(options.float_type);
    device().upload(view(params_, static_cast<int>(i)).data, data.data(), data.bytes());
  }
  state_.seed = options.seed;
  for (const int v : options.batchnorm_train ? running_statistics(source) : std::vector<int>{}) {
    const int slot = table_.slot_of[static_cast<size_t>(v)];
    const Dims& dims = layout_.chunks()[static_cast<size_t>(slot)].dims;
    Staged& t = staged_[slot];
    t.memory = allocate(numel(dims));
    t.tensor = Tensor{t.memory.get(), options.float_type, dims};
  }
  stage_statistics();
}

void Session::stage_statistics() {
  for (auto& [slot, t] : staged_) device().copy(t.tensor.data, view(params_, slot).data, t.tensor.bytes());
}

void Session::commit_statistics() {
  for (const auto& [slot, t] : staged_) device().copy(view(params_, slot).data, t.tensor.data, t.tensor.bytes());
}

bool Session::statistics_finite() const {
  return std::all_of(staged_.begin(), staged_.end(), [&](const auto& s) {
    const std::vector<double> v = device().read(s.second.tensor).to_doubles();
    return std::all_of(v.begin(), v.end(), [](double x) { return std::isfinite(x); });
  });
}

int64_t Session::statistic_elements() const {
  int64_t n = 0;
  for (const auto& [slot, t] : staged_) n += t.tensor.numel();
  return n;
}

void Session::keep_statistics(const Program& p) {
  for (auto& [slot, t] : staged_) {
    const std::string name = statistic_output(slot);
    if (p.has_output(name)) device().copy(t.tensor.data, p.output(name).data, t.tensor.bytes());
  }
}

Tensor Session::view(const DeviceMemory& arena, int slot) const {
  const Chunk& c = layout_.chunks()[static_cast<size_t>(slot)];
  return Tensor{static_cast<char*>(arena.get()) + c.offset * size_of(options_.float_type), options_.float_type, c.dims};
}

HostTensor Session::host(const Tensor& t, const DeviceMemory& owner) const {
  return device().traits().host_memory ? HostTensor(t.dtype, t.dims, owner, t.data) : device().read(t);
}
HostTensor Session::host_params() const {
  return host({params_.get(), options_.float_type, {layout_.size()}}, params_);
}
HostTensor Session::host_grads() const {
  return host({grads_.get(), options_.float_type, {layout_.trained_size()}}, grads_);
}
HostTensor Session::param(int slot) const { return host(view(params_, slot), params_); }
HostTensor Session::grad(int slot) const {
  if (!grads_ || layout_.chunks().at(static_cast<size_t>(slot)).frozen)
    bug("a gradient that no training program computes");
  return host(view(grads_, slot), grads_);
}

void Session::set_params(const HostTensor& span) {
  check(span.dtype() == options_.float_type && span.numel() == layout_.size(), "parameters of another layout");
  if (span.data() != params_.get()) device().upload(params_.get(), span.data(), span.bytes());
}

void Session::describe(UpdateSpec& spec) const {
  check(options_.float_type == DType::f32, "a device updates fp32 parameters");
  check(grads_ || layout_.trained_size() == 0, "an update is described after prepare()");
  spec.params = static_cast<float*>(params_.get());
  spec.grads = static_cast<float*>(grads_.get());
  spec.elements = layout_.trained_size();
  spec.spans = update_spans(layout_);
  for (const auto& [slot, t] : staged_) {
    spec.statistics.push_back({static_cast<float*>(view(params_, slot).data), static_cast<const float*>(t.tensor.data),
                               t.tensor.numel(), slot});
  }
}

// Not before someone trains: a teacher never does.
void Session::need_grads() {
  if (!grads_) grads_ = in_phase("the gradients", [&] { return allocate(layout_.trained_size()); });
}

void Session::zero_grads() {
  need_grads();
  device().fill(grads_.get(), 0, layout_.trained_size() * size_of(options_.float_type));
}

FlatLayout Session::moving() const {
  FlatLayout out = layout_;
  for (const auto& [slot, t] : staged_) out.chunks()[static_cast<size_t>(slot)].frozen = false;
  return out;
}

std::string shapes_of(const Tensors& batch) {
  std::vector<std::string> words;
  for (const auto& [name, t] : batch) words.push_back(cat(printable(name), ' ', to_string(t.dims())));
  return join(words, ", ");
}

static std::string signature(const Tensors& batch) {
  std::string s;
  for (const auto& [name, t] : batch) s += cat(name, to_string(t.dims()), name_of(t.dtype()), ';');
  return s;
}

// Before any of it is touched.
static void refuse_large(const Program& p, const SourceGraph& g, const Tensors& batch) {
  std::map<std::string, Dims> shapes;
  for (const auto& [name, t] : batch) shapes[name] = t.dims();
  const int64_t limit = activation_limit(g, shapes);
  if (p.arena_bytes() > limit)
    refuse_bytes(cat("tensors that live at the same time have ", p.arena_bytes(), " bytes"), limit);
}

std::string Session::program_key(Mode mode, const Losses* loss, const std::vector<int>& outputs, const Tensors& batch) {
  std::string key = cat(static_cast<int>(mode), '|', loss ? loss->key() : "", '|');
  for (const int o : outputs) key += cat(o, ',');
  return key + signature(batch);
}

ProgramOptions Session::program_options(Mode mode) {
  ProgramOptions o;
  o.device = &device();
  o.arena = arena_.get();
  o.cache = &cache_;
  o.state = &state_;
  o.accumulate = mode == Mode::train_accumulate;
  const bool train = mode == Mode::train || mode == Mode::train_accumulate;
  for (size_t i = 0; i < table_.size(); ++i) {
    const auto staged = staged_.find(static_cast<int>(i));
    const bool moved = train && staged != staged_.end();
    o.params.push_back(moved ? staged->second.tensor : view(params_, static_cast<int>(i)));
    o.grads.push_back(train && !layout_.chunks()[i].frozen ? view(grads_, static_cast<int>(i)) : Tensor{});
  }
  return o;
}

Program& Session::program(Mode mode, const Losses* loss, const std::vector<int>& outputs, const Tensors& batch,
                          const Packing* packing, bool node_by_node) {
  const bool fused = options_.fusion && !node_by_node;
  std::string key = cat(program_key(mode, loss, outputs, batch), fused ? "fused" : "");
  if (packing) key += cat("tokens", packing->tokens);
  auto& slot = programs_[key];
  if (!slot) {
    const std::shared_ptr<Graph> graph = build(mode, loss, outputs, batch, packing);
    if (fused) fuse(*graph);
    for (const auto& p : graph->param_grads) reached_[static_cast<size_t>(p.slot)] = true;
    if (mode == Mode::train || mode == Mode::train_accumulate) need_grads();
    auto made = in_phase(cat("the activations (and 16-bit weights) of ", shapes_of(batch)),
                         [&] { return std::make_unique<Program>(graph, program_options(mode)); });
    refuse_large(*made, source_, batch);
    slot = std::move(made);
  }
  return *slot;
}

void Session::feed(Program& p, const Tensors& batch) {
  for (const auto& [name, t] : batch) {
    if (p.has_input(name)) p.set_input(name, t);
  }
}

Program& Session::ready(Mode mode, const Losses& loss, const std::vector<int>& outputs, const Tensors& batch,
                        bool node_by_node) {
  const std::optional<Packing> p = packing(mode, loss, outputs, batch, !node_by_node);
  Program& program = this->program(mode, &loss, outputs, batch, p ? &*p : nullptr, node_by_node);
  feed(program, batch);
  if (p) feed(program, p->inputs);
  return program;
}

void Session::prepare(const Losses& loss, const Tensors& batch) {
  program(Mode::train, &loss, {}, batch);
  const FlatLayout before = layout_;
  bool changed = false;
  for (size_t i = 0; i < reached_.size(); ++i) {
    Chunk& c = layout_.chunks()[i];
    if (reached_[i] || c.frozen) continue;
    c.frozen = changed = true;
  }
  if (!changed) return;
  // Programs hold addresses of the old arenas: they are made again when asked for.
  programs_.clear();
  cache_ = ParamCache(device());
  known_copies_ = 0;
  grads_ = {};
  layout_.arrange();
  const DeviceMemory old = std::exchange(params_, in_phase("the weights", [&] { return allocate(layout_.size()); }));
  for (size_t i = 0; i < table_.size(); ++i) {
    const Tensor to = view(params_, static_cast<int>(i));
    device().copy(to.data,
                  static_cast<const char*>(old.get()) + before.chunks()[i].offset * size_of(options_.float_type),
                  to.bytes());
  }
  need_grads();  // whoever describes the update finds them
}

std::vector<double> Session::read_terms(const Program& p) const {
  std::vector<double> out;
  for (size_t i = 0; p.has_output(cat("loss.", i)); ++i) out.push_back(p.read(cat("loss.", i)).to_doubles().at(0));
  return out;
}

Tensors Session::read_outputs(const Program& p, const std::vector<int>& values) const {
  Tensors out;
  for (const int v : values) {
    const std::string& name = source_.values[static_cast<size_t>(v)].name;
    out[name] = p.read(name);
  }
  return out;
}

std::vector<double> Session::train_micro(const Losses& loss, const Tensors& batch, const std::vector<double>& seeds,
                                         bool accumulate, const Program::Observer* see,
                                         std::shared_ptr<const Graph>* ran) {
  Program& p = ready(accumulate ? Mode::train_accumulate : Mode::train, loss, {}, batch, see != nullptr);
  if (ran) *ran = p.graph();
  for (size_t i = 0; i < seeds.size(); ++i) {
    const std::string name = cat("seed.", i);
    if (p.has_input(name)) p.set_input(name, HostTensor::scalar<double>(seeds[i]));
  }
  if (see) {
    p.run(*see);
  } else {
    p.run();
  }
  keep_statistics(p);
  return read_terms(p);
}

void Session::launch_micro(const Losses& loss, const Tensors& batch, DeviceUpdate& update, bool accumulate) {
  Program& p = ready(accumulate ? Mode::train_accumulate : Mode::train, loss, {}, batch);
  if (cache_.size() != known_copies_) update.set_copies(cache_.copies());
  known_copies_ = cache_.size();
  for (size_t i = 0; p.has_output(cat("loss.", i)); ++i) {
    if (p.has_input(cat("seed.", i))) update.seed(i, p.input(cat("seed.", i)));
  }
  p.run();
  keep_statistics(p);
  for (size_t i = 0; p.has_output(cat("loss.", i)); ++i) update.add_term(i, p.output(cat("loss.", i)));
}

std::vector<double> Session::eval_micro(const Losses& loss, const Tensors& batch, Tensors* outputs) {
  const std::vector<int> values = outputs ? loss_values(loss) : std::vector<int>{};
  Program& p = ready(Mode::eval, loss, values, batch);
  p.run();
  if (outputs) *outputs = read_outputs(p, values);
  return read_terms(p);
}

Tensors Session::forward(const std::vector<int>& outputs, const Tensors& batch, bool full_precision) {
  Program& p = program(full_precision ? Mode::eval_full : Mode::eval, nullptr, outputs, batch);
  feed(p, batch);
  p.run();
  return read_outputs(p, outputs);
}

std::map<std::string, double> Session::profile(const Losses& loss, const Tensors& batch, int repeats) {
  std::map<std::string, double> sum;
  for (int r = -1; r < repeats; ++r) {  // the first run warms up
    Program& p = ready(Mode::train, loss, {}, batch);
    for (size_t i = 0; p.has_input(cat("seed.", i)); ++i) p.set_input(cat("seed.", i), HostTensor::scalar<double>(1));
    for (const auto& [op, seconds] : p.profile()) sum[op] += r < 0 ? 0 : seconds / repeats;
  }
  return sum;
}

std::shared_ptr<const Graph> Session::forward_graph(const std::vector<int>& outputs, const Tensors& batch) {
  return build(Mode::eval, nullptr, outputs, batch, nullptr);
}

std::shared_ptr<const Graph> Session::train_graph(const Losses& loss, const Tensors& batch) {
  return build(Mode::train, &loss, {}, batch, nullptr);
}

std::shared_ptr<const Graph> Session::micro_graph(const Losses& loss, const Tensors& batch) {
  const std::optional<Packing> p = packing(Mode::train, loss, {}, batch, false);
  return build(Mode::train, &loss, {}, batch, p ? &*p : nullptr);
}

std::string Session::bill() const {
  const int64_t wide = size_of(options_.float_type);
  return cat("parameters ", with_thousands(layout_.size() * wide), " B, gradients ",
             with_thousands(grads_ ? layout_.trained_size() * wide : 0), " B, 16-bit copies ",
             with_thousands(cache_.bytes()), " B, activations ", with_thousands(arena_->used()), " B, programs ",
             programs_.size());
}

}  // namespace amp
