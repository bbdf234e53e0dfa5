// Session: a model ready to run: parameters in flat arenas, one Program per bucket (input shapes), the prologue of
// 16-bit copies. It computes losses, gradients and outputs; what to do with them is the Trainer's matter.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/program.h"
#include "backend/update.h"
#include "graph/bind.h"
#include "trainer/flat_layout.h"
#include "trainer/losses.h"
#include "trainer/packing.h"
#include "trainer/padding_guard.h"

namespace amp {

struct SessionOptions {
  Device* device = &cpu_device();  // outlives the session
  DType float_type = DType::f32;   // f64 for checks
  std::vector<DType> compute;      // by source node; empty: everything in float_type
  DType low = DType::f16;          // the plan's 16-bit type
  bool batchnorm_train = false;
  // compute the tokens that are there alone (ops/padding.h), losses and gradients
  bool remove_padding = true;
  // outside training, nodes in training form use batch statistics, as in inference engines
  bool batchnorm_as_written = false;
  DecayExclude decay_exclude = DecayExclude::bias_and_norm;
  uint64_t seed = 42;
  // sums and norms (ops/add_norm_fusion.h), elementwise nodes (ops/fuse.h) are fused, where the device gains by it
  bool fusion = true;
};

std::string shapes_of(const Tensors& batch);  // for people: "ids [32,128], label [32]"

class Session {
 public:
  // The source graph must outlive the session.
  Session(const SourceGraph& source, const SessionOptions& options);

  // A batch holds graph inputs, labels and, to distil, the teacher's outputs, by name.
  // Forward, backward: gradients of sum_i seed_i * term_i are written to (or, accumulating, added to) the gradient
  // arena.
  // Returns the sum of each loss term over the micro-batch, for LossWindow.
  // see, if given, is shown every node's outputs; ran becomes the graph that they are nodes of, which need not be
  // train_graph(): padding may have been removed.
  std::vector<double> train_micro(const Losses& loss, const Tensors& batch, const std::vector<double>& seeds,
                                  bool accumulate, const Program::Observer* see = nullptr,
                                  std::shared_ptr<const Graph>* ran = nullptr);
  // The same on a device that updates by itself: seeds are update's, so is the sum of the losses, and nothing waits.
  void launch_micro(const Losses& loss, const Tensors& batch, DeviceUpdate& update, bool accumulate);
  // Loss sums without gradients, in evaluation form; outputs: the values that the losses read.
  std::vector<double> eval_micro(const Losses& loss, const Tensors& batch, Tensors* outputs = nullptr);
  // Model outputs by name (source values), in evaluation form.
  // full_precision: without the precision plan.
  Tensors forward(const std::vector<int>& outputs, const Tensors& batch, bool full_precision = false);

  // Compiles the training program of a batch and freezes every parameter that no gradient reaches, so that neither
  // decay nor momentum moves it (torch.optim skips parameters whose grad is None). Before an Optimizer copies the
  // layout, and before anyone keeps params(), param() or grads(): the arenas may move.
  void prepare(const Losses& loss, const Tensors& batch);

  void params_changed() { cache_.refresh(); }

  // Running statistics (BatchNormalization under batchnorm_train) lie among the parameters, frozen. Training
  // micro-batches read and move a staged copy, one after the other; evaluation and everything that leaves reads the
  // committed values.
  void stage_statistics();         // before a window: staged = committed
  bool statistics_finite() const;  // the staged ones
  void commit_statistics();        // after an applied step; params_changed() is to follow
  int64_t statistic_elements() const;

  const SourceGraph& source() const { return source_; }
  const ParamTable& table() const { return table_; }
  FlatLayout& layout() { return layout_; }  // one chunk per slot; frozen: no gradient or not trainable
  const FlatLayout& layout() const { return layout_; }
  FlatLayout moving() const;  // running statistics not frozen: what a checkpoint holds
  DType float_type() const { return options_.float_type; }
  Device& device() const { return *options_.device; }
  void* params() { return params_.get(); }  // layout().size() elements, in the device's memory as all arenas
  // layout().trained_size() elements; null before a training Program
  void* grads() { return grads_.get(); }
  void zero_grads();
  HostTensor host_params() const;  // the whole span; on the CPU a view
  HostTensor host_grads() const;
  void set_params(const HostTensor& span);  // params_changed() is to follow
  HostTensor param(int slot) const;         // on the CPU a view into the arena
  HostTensor grad(int slot) const;          // of one that is not frozen
  // Where the update finds everything: spans, statistics.
  void describe(UpdateSpec& spec) const;
  std::vector<ParamCache::Copy> copies() const { return cache_.copies(); }          // of parameters, in 16 bits
  bool has_grad(int slot) const { return reached_.at(static_cast<size_t>(slot)); }  // after a training micro-batch
  RunState& state() { return state_; }
  PaddingGuard& padding_guard() { return guard_; }
  int64_t activation_bytes() const { return arena_->used(); }
  size_t programs() const { return programs_.size(); }
  std::string bill() const;  // memory, for people

  // Seconds by operator of a training micro-batch, each operator's share of `repeats` runs averaged.
  std::map<std::string, double> profile(const Losses& loss, const Tensors& batch, int repeats);

  // Whether a training micro-batch of it is computed without padding.
  bool packs(const Losses& loss, const Tensors& batch) {
    return packing(Mode::train, loss, {}, batch, false).has_value();
  }

  // The graph that forward() runs, and the one of a training micro-batch, before nodes are fused: for dumps, costs and
  // tests.
  std::shared_ptr<const Graph> forward_graph(const std::vector<int>& outputs, const Tensors& batch);
  std::shared_ptr<const Graph> train_graph(const Losses& loss, const Tensors& batch);
  // The one that train_micro() runs for this very batch: without padding where that is removed.
  std::shared_ptr<const Graph> micro_graph(const Losses& loss, const Tensors& batch);

 private:
  enum class Mode { train, train_accumulate, eval, eval_full };
  // node_by_node: for an observer, nothing is fused.
  Program& program(Mode mode, const Losses* loss, const std::vector<int>& outputs, const Tensors& batch,
                   const Packing* packing = nullptr, bool node_by_node = false);
  // Up to the precision plan.
  std::shared_ptr<Graph> compose(Mode mode, const Losses* loss, const std::vector<int>& outputs, const Tensors& batch);
  std::shared_ptr<Graph> build(Mode mode, const Losses* loss, const std::vector<int>& outputs, const Tensors& batch,
                               const Packing* packing);
  void fuse(Graph& graph) const;  // the last passes, with options_.fusion
  // The program of a batch, without its padding where that can be, fed.
  Program& ready(Mode mode, const Losses& loss, const std::vector<int>& outputs, const Tensors& batch,
                 bool node_by_node = false);
  const PaddingPlan& padding_plan(Mode mode, const Losses& loss, const std::vector<int>& outputs, const Tensors& batch);
  // compare: when the guard asks for it.
  std::optional<Packing> packing(Mode mode, const Losses& loss, const std::vector<int>& outputs, const Tensors& batch,
                                 bool compare);
  PaddingGuard::Verdict compare_padding(const Losses& loss, const Tensors& batch);
  LossesAndGradients losses_and_gradients(const Losses& loss, const Tensors& batch, const Packing* packing);
  static std::string program_key(Mode mode, const Losses* loss, const std::vector<int>& outputs, const Tensors& batch);
  ProgramOptions program_options(Mode mode);
  std::vector<int> values_named(const std::vector<std::string>& names) const;
  std::vector<int> loss_values(const Losses& loss) const;
  void build_losses(const Losses& losses, const Tensors& batch, const Bound& bound, Builder& b) const;
  void feed(Program& program, const Tensors& batch);
  std::vector<double> read_terms(const Program& program) const;
  Tensors read_outputs(const Program& program, const std::vector<int>& values) const;
  Tensor view(const DeviceMemory& arena, int slot) const;
  HostTensor host(const Tensor& t, const DeviceMemory& owner) const;
  DeviceMemory allocate(int64_t elements) const { return device().allocate(elements * size_of(options_.float_type)); }
  void keep_statistics(const Program& program);
  void need_grads();

  const SourceGraph& source_;
  SessionOptions options_;
  ParamTable table_;
  FlatLayout layout_;
  DeviceMemory params_, grads_;
  struct Staged {
    DeviceMemory memory;
    Tensor tensor;
  };
  std::map<int, Staged> staged_;  // by slot: running statistics
  std::vector<bool> reached_;
  std::unique_ptr<Arena> arena_;
  ParamCache cache_;
  size_t known_copies_ = 0;  // what the update was told of
  RunState state_;
  std::map<std::string, std::unique_ptr<Program>> programs_;
  std::map<std::string, PaddingPlan> padding_;  // by bucket
  PaddingGuard guard_;
  bool said_why_ = false;  // why padding stays
};

}  // namespace amp
