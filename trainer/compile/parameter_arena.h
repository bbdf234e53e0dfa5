// ParameterArena: owns the weights and gradients in device memory (flat spans), staged running statistics, and the
// cache of 16-bit copies that Programs read instead of weights.
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
  // Running statistics (BatchNormalization) are stored among the parameters, as frozen chunks. With stage_statistics
  // each training micro-batch reads and updates a staged copy, and an applied step commits it (UpdateSpec::statistics).
  // Evaluation, checkpoints and exports read the committed values.
  ParameterArena(const SourceGraph& source, const ParamTable& table, Device& device, DType type, DecayExclude exclude,
                 bool stage_statistics);

  // Returns the layout: one chunk per parameter, whose index is its slot. Chunk::frozen: no gradient, or not trainable.
  FlatLayout& layout() { return layout_; }
  const FlatLayout& layout() const { return layout_; }
  FlatLayout moving() const;  // the layout with running statistics not frozen, as checkpoints store it
  Device& device() const { return device_; }
  DType type() const { return type_; }

  void* params() const { return params_.get(); }  // layout().size() elements
  void* grads() const { return grads_.get(); }    // layout().trained_size() elements; null before need_grads()
  const DeviceMemory& grads_memory() const { return grads_; }
  void need_grads();  // allocates the gradients if necessary; called only for training, so a teacher has none
  void zero_grads();
  void need_curvature();  // allocates the estimate of the Hessian's diagonal, as large as the gradients
  void zero_curvature();
  Tensor curvature() const { return {curvature_.get(), type_, {layout_.trained_size()}}; }

  HostTensor host_params() const;  // all elements of params(): a view on the CPU, else a copy
  HostTensor host_grads() const;
  HostTensor param(int slot) const;  // a view on the CPU, else a copy
  HostTensor grad(int slot) const;   // requires a parameter that is not frozen
  // Copies `span` to the parameters (unless it is the view that host_params() returned) and refreshes the 16-bit
  // copies.
  void set_params(const HostTensor& span);
  Tensor weight(int slot) const { return view(params_, slot); }
  Tensor gradient(int slot) const { return view(grads_, slot); }
  Tensor curvature(int slot) const { return view(curvature_, slot); }

  // Records which parameters have a gradient in this training graph.
  void reach(const Graph& graph);
  bool reached(int slot) const { return reached_.at(static_cast<size_t>(slot)); }  // has a gradient in a recorded graph
  bool all_reached() const;                                                        // ignores frozen parameters
  // Freezes every parameter without a gradient. Weights get new addresses; gradients, copies and all Programs become
  // invalid.
  void freeze_unreached();

  void stage_statistics();  // at the start of an accumulation step: staged = committed
  // Save and restore the staged values, so that an additional pass over the micro-batches does not change them.
  void hold_statistics();
  void release_statistics();
  const std::map<int, Tensor>& staged() const { return staged_; }  // keys: slots of running statistics
  int64_t statistic_elements() const;

  ParamCache& copies() { return copies_; }
  const ParamCache& copies() const { return copies_; }

  void describe(UpdateSpec& spec) const;  // sets the addresses and UpdateSpans that an update needs

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
