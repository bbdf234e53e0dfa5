// ParameterArena: a model's parameters and what lies beside them, in the device's memory: weights and gradients in flat
// spans, running statistics staged, the 16-bit copies that Programs read instead of a weight.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/param_cache.h"
#include "backend/update.h"
#include "graph/bind.h"
#include "trainer/compile/flat_layout.h"

namespace amp {

class ParameterArena {
 public:
  // Running statistics (BatchNormalization) lie among the parameters, frozen. With stage_statistics training
  // micro-batches read and move a staged copy, one after the other, and a step that is applied commits it
  // (UpdateSpec::statistics); evaluation and everything that leaves reads the committed values.
  ParameterArena(const SourceGraph& source, const ParamTable& table, Device& device, DType type, DecayExclude exclude,
                 bool stage_statistics);

  FlatLayout& layout() { return layout_; }  // one chunk per slot; frozen: no gradient or not trainable
  const FlatLayout& layout() const { return layout_; }
  FlatLayout moving() const;  // running statistics not frozen: what a checkpoint holds
  Device& device() const { return device_; }
  DType type() const { return type_; }

  void* params() const { return params_.get(); }  // layout().size() elements
  void* grads() const { return grads_.get(); }    // layout().trained_size() elements; null before need_grads()
  const DeviceMemory& grads_memory() const { return grads_; }
  void need_grads();  // not before someone trains: a teacher never does
  void zero_grads();
  void need_curvature();  // an arena as large as that of gradients: the estimate of the Hessian's diagonal
  void zero_curvature();
  Tensor curvature() const { return {curvature_.get(), type_, {layout_.trained_size()}}; }

  HostTensor host_params() const;  // the whole span; on the CPU a view
  HostTensor host_grads() const;
  HostTensor param(int slot) const;         // on the CPU a view
  HostTensor grad(int slot) const;          // of one that is not frozen
  void set_params(const HostTensor& span);  // the 16-bit copies follow, where host_params() was written in place too
  Tensor weight(int slot) const { return view(params_, slot); }
  Tensor gradient(int slot) const { return view(grads_, slot); }
  Tensor curvature(int slot) const { return view(curvature_, slot); }

  // Which parameters a training graph has a gradient of, and those of all seen so far.
  void reach(const Graph& graph);
  bool reached(int slot) const { return reached_.at(static_cast<size_t>(slot)); }
  // Freezes every parameter that no gradient reached. Weights move, gradients and copies are void: so is every Program.
  bool all_reached() const;
  void freeze_unreached();

  void stage_statistics();  // before a window: staged = committed
  // What was staged is put aside, and back, so that another pass over the window does not count.
  void hold_statistics();
  void release_statistics();
  const std::map<int, Tensor>& staged() const { return staged_; }  // by slot
  int64_t statistic_elements() const;

  ParamCache& copies() { return copies_; }
  const ParamCache& copies() const { return copies_; }

  void describe(UpdateSpec& spec) const;  // where an update finds everything: spans, statistics

 private:
  Tensor view(const DeviceMemory& arena, int slot) const;
  HostTensor host(const Tensor& t, const DeviceMemory& owner) const;
  DeviceMemory allocate(int64_t elements) const { return device_.allocate(elements * size_of(type_)); }

  Device& device_;
  DType type_;
  FlatLayout layout_;
  DeviceMemory params_, grads_, curvature_;
  std::map<int, Tensor> staged_;
  std::vector<DeviceMemory> staged_memory_;
  std::map<int, DeviceMemory> held_;
  std::vector<bool> reached_;
  ParamCache copies_;
};

}  // namespace amp
