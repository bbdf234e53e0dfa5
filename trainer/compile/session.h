// Session: a model that is ready to run. It owns the parameters (ParameterArena), compiles graphs (GraphCompiler) to
// Programs (ProgramCache), removes padding, and computes losses, gradients and outputs. The Trainer uses these results.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/compile/graph_compiler.h"
#include "trainer/compile/label_rows.h"
#include "trainer/compile/padding_removal.h"
#include "trainer/compile/parameter_arena.h"
#include "trainer/compile/program_cache.h"

namespace amp {

struct SessionOptions : GraphOptions {
  Device* device = &cpu_device();  // outlives the session
  // Compute only real tokens, without padding (ops/passes/padding.h), for losses and gradients.
  bool remove_padding = true;
  bool skip_unlabeled = true;  // after the last attention, compute only rows with a label (ops/passes/label_rows.h)
  DecayExclude decay_exclude = DecayExclude::bias_and_norm;
  uint64_t seed = 42;
  int64_t program_bytes = 0;  // limit of the compiled Programs' host memory (ProgramCache::limit); 0: chosen
  Log log;                    // receives the reason if padding is kept, and every compiled Program
};

class Session {
 public:
  // The source graph must outlive the session.
  Session(const SourceGraph& source, const SessionOptions& options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Batches map the names of graph inputs, labels and (for distillation) the teacher's outputs to tensors.

  // Launches forward and backward of a micro-batch without waiting. terms provides the seeds of the backward pass and
  // receives the loss sums. Gradients are written (accumulate: added) to the gradient arena; running statistics are
  // updated.
  // look: optional hooks (profiler, first non-finite value) that receive the compiled Program.
  void launch_micro_batch(const Losses& losses, const Tensors& batch, LossTerms& terms, bool accumulate,
                          const Instrumentation* look = nullptr);
  // Writes the Hessian-vector product H v in place of the gradients. H: second derivatives of the loss that
  // launch_micro_batch() differentiates. Computed with padding and without the precision plan. direction: the elements
  // of v, by parameter slot, for every parameter that has a gradient. Throws E_NO_SECOND_GRADIENT with the name of an
  // operator that has no second gradient.
  void launch_hessian(const Losses& losses, const Tensors& batch, const std::vector<HostTensor>& direction,
                      LossTerms& terms, const Instrumentation* look = nullptr);
  // Writes (accumulate: adds) Hutchinson's estimate of the Hessian diagonal, v * H v elementwise, to the curvature
  // arena.
  void launch_diagonal(const Losses& losses, const Tensors& batch, const std::vector<HostTensor>& direction,
                       LossTerms& terms, bool accumulate);
  // Writes (accumulate: adds) gradients for labels that are sampled from the model's outputs to the curvature arena.
  // The random numbers are Philox of the run's seed, the step and the row of the batch. Computed in fp32 and with
  // padding.
  void launch_sampled_labels(const Losses& losses, const Tensors& batch, LossTerms& terms, bool accumulate);
  // The two passes of a gradient cache over a micro-batch (trainer/loop/gradient_cache.h). launch_forward() computes
  // only the outputs that losses across rows read. launch_cached() calls feed, which writes the gradients of these
  // outputs into the inputs cached_input(), and runs forward and backward. Random nodes repeat their numbers, so both
  // passes give bit-identical outputs.
  const Program& launch_forward(const Losses& losses, const Tensors& batch);
  void launch_cached(const Losses& losses, const Tensors& batch, LossTerms& terms, bool accumulate,
                     const std::function<void(Program&)>& feed);
  // Returns loss sums without gradients, in evaluation form. outputs: receives the values that the losses read.
  std::vector<double> eval_micro_batch(const Losses& losses, const Tensors& batch, Tensors* outputs = nullptr);
  // Returns model outputs (given as source values) by name, in evaluation form. full_precision: without the precision
  // plan.
  Tensors forward(const std::vector<int>& outputs, const Tensors& batch, bool full_precision = false);
  // Compiles what forward() runs, and returns the bytes of its result.
  int64_t prepare_forward(const std::vector<int>& outputs, const Tensors& batch, bool full_precision = false);

  // Compiles the training Program of a batch and freezes every parameter without a gradient, so that neither decay nor
  // momentum changes it (torch.optim skips parameters whose grad is None). Call it before an optimizer copies the
  // layout and before results of params(), param() or grads() are kept: the arenas may be reallocated.
  void prepare(const Losses& losses, const Tensors& batch);

  const SourceGraph& source() const { return source_; }
  const ParamTable& table() const { return table_; }
  DType float_type() const { return arena_.type(); }
  Device& device() const { return arena_.device(); }
  RunState& state() { return state_; }
  PaddingGuard& padding_guard() { return padding_.guard(); }

  // Forwarded to ParameterArena.
  FlatLayout& layout() { return arena_.layout(); }
  const FlatLayout& layout() const { return arena_.layout(); }
  FlatLayout moving() const { return arena_.moving(); }
  void* params() { return arena_.params(); }
  void* grads() { return arena_.grads(); }
  const DeviceMemory& grads_memory() const { return arena_.grads_memory(); }
  void zero_grads() { arena_.zero_grads(); }
  void need_curvature() { arena_.need_curvature(); }
  void zero_curvature() { arena_.zero_curvature(); }
  Tensor curvature() const { return arena_.curvature(); }
  void stage_statistics() { arena_.stage_statistics(); }
  void hold_statistics() { arena_.hold_statistics(); }
  void release_statistics() { arena_.release_statistics(); }
  int64_t statistic_elements() const { return arena_.statistic_elements(); }
  HostTensor host_params() const { return arena_.host_params(); }
  HostTensor host_grads() const { return arena_.host_grads(); }
  HostTensor param(int slot) const { return arena_.param(slot); }
  HostTensor grad(int slot) const { return arena_.grad(slot); }
  void set_params(const HostTensor& span) { arena_.set_params(span); }
  bool has_grad(int slot) const { return arena_.reached(slot); }  // valid after a training micro-batch
  const ParamCache& copies() const { return arena_.copies(); }
  void describe(UpdateSpec& spec) const { arena_.describe(spec); }

  int64_t activation_bytes() const { return programs_.activation_bytes(); }
  const std::string& recomputed() const { return programs_.recomputed(); }
  const ProgramCache& programs() const { return programs_; }
  std::string memory_text() const;  // for logs: "parameters 65.8 MiB, gradients 65.8 MiB, ..."

  // Returns whether a training micro-batch with this batch is computed without padding.
  bool packs(const Losses& losses, const Tensors& batch);
  // Returns the number of rows that a training micro-batch with this batch computes after the last attention; 0: all.
  int64_t label_rows(const Losses& losses, const Tensors& batch);
  // Return the graphs of forward() and of a training micro-batch, both with padding and before fusion, for plans, cost
  // estimates and tests.
  std::shared_ptr<const Graph> forward_graph(const std::vector<int>& outputs, const Tensors& batch) const;
  std::shared_ptr<const Graph> train_graph(const Losses& losses, const Tensors& batch) const;
  // As train_graph(), but with only the rows that this batch's labels need.
  std::shared_ptr<const Graph> labeled_graph(const Losses& losses, const Tensors& batch);

 private:
  // Returns the Program of a request with the batch written to its inputs.
  BucketProgram& ready(const GraphRequest& r, bool accumulate, const Packing* packing, bool fused);
  void launch_curvature(GraphForm form, const Losses& losses, const Tensors& batch,
                        const std::vector<HostTensor>& direction, LossTerms& terms, bool accumulate,
                        const Instrumentation* look);
  Tensors read_outputs(const BucketProgram& p, const std::vector<int>& values) const;

  const SourceGraph& source_;
  const ParamTable table_;
  RunState state_;
  ParameterArena arena_;
  const GraphCompiler compiler_;
  ProgramCache programs_;
  PaddingRemoval padding_;
  LabelRows label_rows_;
};

}  // namespace amp
