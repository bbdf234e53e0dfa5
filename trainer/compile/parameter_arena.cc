// Allocates and relocates the arrays of parameters, gradients and curvature (spans with a FlatLayout).
// freeze_unreached() rearranges the layout and copies the weights, so earlier pointers become invalid.

#include "trainer/compile/parameter_arena.h"

#include <utility>

#include "backend/memory_phase.h"
#include "base/error.h"
#include "ops/statistics.h"
#include "trainer/compile/flat_views.h"

namespace amp {

ParameterArena::ParameterArena(const SourceGraph& source, const ParamTable& table, Device& device, DType type,
                               DecayExclude exclude, bool stage_statistics)
    : device_(device), type_(type), layout_(exclude), reached_(table.size(), false), copies_(device) {
  for (const int v : table.source_value) {
    const SourceValue& s = source.values[static_cast<size_t>(v)];
    Chunk& c = layout_.add(s.name, s.data.dims());
    c.frozen = !s.trainable;
  }
  layout_.arrange();
  params_ = in_phase("the weights", [&] { return allocate(layout_.size()); });
  for (size_t i = 0; i < table.size(); ++i) {
    const HostTensor data = source.values[static_cast<size_t>(table.source_value[i])].data.cast(type);
    device_.upload(weight(static_cast<int>(i)).data, data.data(), data.bytes());
  }
  for (const int v : stage_statistics ? running_statistics(source) : std::vector<int>{}) {
    const int slot = table.slot_of[static_cast<size_t>(v)];
    const Dims& dims = layout_.chunks()[static_cast<size_t>(slot)].dims;
    staged_memory_.push_back(allocate(numel(dims)));
    staged_[slot] = Tensor{staged_memory_.back().get(), type, dims};
  }
  this->stage_statistics();
}

Tensor ParameterArena::view(const DeviceMemory& arena, int slot) const {
  const Chunk& c = layout_.chunks()[static_cast<size_t>(slot)];
  char* const base = static_cast<char*>(arena.get());  // null if the arena is not allocated
  return Tensor{base ? base + c.offset * size_of(type_) : nullptr, type_, c.dims};
}

HostTensor ParameterArena::host(const Tensor& t, const DeviceMemory& owner) const {
  return device_.traits().host_memory ? HostTensor(t.dtype, t.dims, owner, t.data) : device_.read(t);
}
HostTensor ParameterArena::host_params() const { return host({params_.get(), type_, {layout_.size()}}, params_); }
HostTensor ParameterArena::host_grads() const { return host({grads_.get(), type_, {layout_.trained_size()}}, grads_); }
HostTensor ParameterArena::param(int slot) const { return host(weight(slot), params_); }
HostTensor ParameterArena::grad(int slot) const {
  if (!grads_ || layout_.chunks().at(static_cast<size_t>(slot)).frozen)
    bug("a gradient that no training program computes");
  return host(gradient(slot), grads_);
}

void ParameterArena::set_params(const HostTensor& span) {
  check(span.dtype() == type_ && span.numel() == layout_.size(), "parameters of another layout");
  if (span.data() != params_.get()) device_.upload(params_.get(), span.data(), span.bytes());
  copies_.refresh();
}

void ParameterArena::need_grads() {
  if (!grads_) grads_ = in_phase("the gradients", [&] { return allocate(layout_.trained_size()); });
}

void ParameterArena::need_curvature() {
  if (!curvature_) curvature_ = in_phase("the Hessian's diagonal", [&] { return allocate(layout_.trained_size()); });
}

void ParameterArena::zero_curvature() {
  need_curvature();
  device_.fill(curvature_.get(), 0, layout_.trained_size() * size_of(type_));
}

void ParameterArena::zero_grads() {
  need_grads();
  device_.fill(grads_.get(), 0, layout_.trained_size() * size_of(type_));
}

FlatLayout ParameterArena::moving() const {
  FlatLayout out = layout_;
  for (const auto& [slot, t] : staged_) out.chunks()[static_cast<size_t>(slot)].frozen = false;
  return out;
}

void ParameterArena::reach(const Graph& graph) {
  for (const Graph::ParamGrad& p : graph.param_grads) reached_[static_cast<size_t>(p.slot)] = true;
}

bool ParameterArena::all_reached() const {
  for (size_t i = 0; i < reached_.size(); ++i) {
    if (!reached_[i] && !layout_.chunks()[i].frozen) return false;
  }
  return true;
}

void ParameterArena::freeze_unreached() {
  const FlatLayout before = layout_;
  for (size_t i = 0; i < reached_.size(); ++i) layout_.chunks()[i].frozen |= !reached_[i];
  copies_ = ParamCache(device_);
  grads_ = curvature_ = {};
  layout_.arrange();
  const DeviceMemory old = std::exchange(params_, in_phase("the weights", [&] { return allocate(layout_.size()); }));
  for (size_t i = 0; i < reached_.size(); ++i) {
    const Tensor to = weight(static_cast<int>(i));
    device_.copy(to.data, static_cast<const char*>(old.get()) + before.chunks()[i].offset * size_of(type_), to.bytes());
  }
}

void ParameterArena::stage_statistics() {
  for (const auto& [slot, t] : staged_) device_.copy(t.data, weight(slot).data, t.bytes());
}

void ParameterArena::hold_statistics() {
  for (const auto& [slot, t] : staged_) {
    DeviceMemory& memory = held_[slot];
    if (!memory) memory = allocate(t.numel());
    device_.copy(memory.get(), t.data, t.bytes());
  }
}

void ParameterArena::release_statistics() {
  for (const auto& [slot, t] : staged_) device_.copy(t.data, held_.at(slot).get(), t.bytes());
}

int64_t ParameterArena::statistic_elements() const {
  int64_t n = 0;
  for (const auto& [slot, t] : staged_) n += t.numel();
  return n;
}

void ParameterArena::describe(UpdateSpec& spec) const {
  check(type_ == DType::f32, "a device updates fp32 parameters");
  check(grads_ || layout_.trained_size() == 0, "an update is described after prepare()");
  spec.params = static_cast<float*>(params_.get());
  spec.grads = static_cast<float*>(grads_.get());
  spec.curvature = static_cast<float*>(curvature_.get());
  spec.elements = layout_.trained_size();
  spec.spans = update_spans(layout_);
  for (const auto& [slot, t] : staged_) {
    spec.statistics.push_back({static_cast<float*>(weight(slot).data), static_cast<float*>(t.data), t.numel(), slot});
  }
}

}  // namespace amp
