// Session: a model ready to run: parameters in flat arenas, one Program per bucket (input shapes), the prologue of 16-bit
// copies. It computes losses, gradients and outputs; what to do with them is the Trainer's matter.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/program.h"
#include "graph/bind.h"
#include "trainer/arena.h"
#include "trainer/losses.h"

namespace amp {

struct SessionOptions {
  DType float_type = DType::f32;          // f64 for checks
  std::vector<DType> compute;             // by source node; empty: everything in float_type
  DType low = DType::f16;                 // the plan's 16-bit type
  bool batchnorm_train = false;
  bool batchnorm_as_written = false;      // outside training, nodes in training form use batch statistics, as in inference engines
  DecayExclude decay_exclude = DecayExclude::bias_and_norm;
  uint64_t seed = 42;
};

class Session {
 public:
  // The source graph must outlive the session.
  Session(const SourceGraph& source, const SessionOptions& options);

  // A batch holds graph inputs, labels and, to distil, the teacher's outputs, by name.
  // Forward, backward: gradients of sum_i seed_i * term_i are written to (or, accumulating, added to) the gradient arena.
  // Returns the sum of each loss term over the micro-batch, for LossWindow.
  // see, if given, is shown every node's outputs.
  std::vector<double> train_micro(const Losses& loss, const Tensors& batch, const std::vector<double>& seeds, bool accumulate,
                                  const Program::Observer* see = nullptr);
  // Loss sums without gradients, in evaluation form; outputs: the values that the losses read.
  std::vector<double> eval_micro(const Losses& loss, const Tensors& batch, Tensors* outputs = nullptr);
  // Model outputs by name (source values), in evaluation form.
  // full_precision: without the precision plan.
  Tensors forward(const std::vector<int>& outputs, const Tensors& batch, bool full_precision = false);

  // Compiles the training program of a batch and freezes every parameter that no gradient reaches, so that neither decay nor
  // momentum moves it (torch.optim skips parameters whose grad is None). Before an Optimizer copies the layout, and before
  // anyone keeps params(), param() or grads(): the arenas may move.
  void prepare(const Losses& loss, const Tensors& batch);

  void params_changed() { cache_.refresh(); }

  // Running statistics (BatchNormalization under batchnorm_train) lie among the parameters, frozen. Training micro-batches
  // read and move a staged copy, one after the other; evaluation and everything that leaves reads the committed values.
  void stage_statistics();                             // before a window: staged = committed
  bool statistics_finite() const;                      // the staged ones
  void commit_statistics();                            // after an applied step; params_changed() is to follow
  int64_t statistic_elements() const;

  const SourceGraph& source() const { return source_; }
  const ParamTable& table() const { return table_; }
  FlatLayout& layout() { return layout_; }             // one chunk per slot; frozen: no gradient or not trainable
  const FlatLayout& layout() const { return layout_; }
  FlatLayout moving() const;                           // running statistics not frozen: what a checkpoint holds
  DType float_type() const { return options_.float_type; }
  void* params() { return params_.mutable_data(); }
  void* grads() { return grads_.mutable_data(); }      // layout().trained_size() elements; null before a training Program
  void zero_grads();
  HostTensor param(int slot) const;                    // a view into the arena
  HostTensor grad(int slot) const;                     // of one that is not frozen
  bool has_grad(int slot) const { return reached_.at(static_cast<size_t>(slot)); }  // after a training micro-batch
  RunState& state() { return state_; }
  int64_t activation_bytes() const { return arena_.used(); }
  size_t programs() const { return programs_.size(); }
  std::string bill() const;                            // memory, for people

  // Seconds by operator of a training micro-batch, each operator's share of `repeats` runs averaged.
  std::map<std::string, double> profile(const Losses& loss, const Tensors& batch, int repeats);

  // The graph that forward() runs, and the one of a training micro-batch: for dumps, costs and tests.
  std::shared_ptr<const Graph> forward_graph(const std::vector<int>& outputs, const Tensors& batch);
  std::shared_ptr<const Graph> train_graph(const Losses& loss, const Tensors& batch);

 private:
  enum class Mode { train, train_accumulate, eval, eval_full };
  Program& program(Mode mode, const Losses* loss, const std::vector<int>& outputs, const Tensors& batch);
  std::shared_ptr<Graph> build(Mode mode, const Losses* loss, const std::vector<int>& outputs, const Tensors& batch);
  std::vector<int> values_named(const std::vector<std::string>& names) const;
  std::vector<int> loss_values(const Losses& loss) const;
  void build_losses(const Losses& losses, const Tensors& batch, const Bound& bound, Builder& b) const;
  void feed(Program& program, const Tensors& batch);
  std::vector<double> read_terms(const Program& program) const;
  Tensors read_outputs(const Program& program, const std::vector<int>& values) const;
  Tensor view(const HostTensor& arena, int slot) const;
  void keep_statistics(const Program& program);
  void need_grads();

  const SourceGraph& source_;
  SessionOptions options_;
  ParamTable table_;
  FlatLayout layout_;
  HostTensor params_, grads_;
  std::map<int, HostTensor> staged_;                   // by slot: running statistics
  std::vector<bool> reached_;
  HostArena arena_;
  ParamCache cache_;
  RunState state_;
  std::map<std::string, std::unique_ptr<Program>> programs_;
};

}  // namespace amp
