// Session: a model ready to run. It ties together its parameters (ParameterArena), the graphs of what is asked for
// (GraphCompiler), their Programs (ProgramCache) and padding removal, and computes losses, gradients and outputs; what
// to do with them is the Trainer's matter.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/compile/graph_compiler.h"
#include "trainer/compile/padding_removal.h"
#include "trainer/compile/parameter_arena.h"
#include "trainer/compile/program_cache.h"

namespace amp {

struct SessionOptions : GraphOptions {
  Device* device = &cpu_device();  // outlives the session
  // compute the tokens that are there alone (ops/passes/padding.h), losses and gradients
  bool remove_padding = true;
  DecayExclude decay_exclude = DecayExclude::bias_and_norm;
  uint64_t seed = 42;
  Log log;  // told of padding that stays, and of every Program that is compiled
};

class Session {
 public:
  // The source graph must outlive the session.
  Session(const SourceGraph& source, const SessionOptions& options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A batch holds graph inputs, labels and, to distil, the teacher's outputs, by name.
  // Forward, backward, and nothing waits: terms say where backward starts and are told of the losses; gradients are
  // written to (or, accumulating, added to) the gradient arena, running statistics move. Whoever instruments the run
  // is given its Program.
  void launch_micro(const Losses& losses, const Tensors& batch, LossTerms& terms, bool accumulate,
                    const Instrumentation* look = nullptr);
  // The same differentiated twice, with padding and without the precision plan: instead of gradients H v is written,
  // H being the second derivatives of what launch_micro() would have differentiated. direction: v by slot, for every
  // parameter that has a gradient. E_NO_SECOND_GRADIENT names an operator that has none.
  void launch_hessian(const Losses& losses, const Tensors& batch, const std::vector<HostTensor>& direction,
                      LossTerms& terms, const Instrumentation* look = nullptr);
  // The same for an estimate of H's diagonal: v H v, element by element, is written or added to the arena of curvature.
  void launch_diagonal(const Losses& losses, const Tensors& batch, const std::vector<HostTensor>& direction,
                       LossTerms& terms, bool accumulate);
  // Gradients on labels that are drawn from the model's outputs (Philox of seed, step and row), in fp32, with padding:
  // written or added to the arena of curvature.
  void launch_drawn(const Losses& losses, const Tensors& batch, LossTerms& terms, bool accumulate);
  // A gradient cache's two passes over a micro-batch (trainer/loop/gradient_cache.h): forward alone, whose outputs are what
  // losses across rows read; then all of it, once feed has written their gradients (cached_input()) into its inputs.
  // Random nodes draw the same both times, the outputs are the same to the bit.
  const Program& launch_forward(const Losses& losses, const Tensors& batch);
  void launch_cached(const Losses& losses, const Tensors& batch, LossTerms& terms, bool accumulate,
                     const std::function<void(Program&)>& feed);
  // Loss sums without gradients, in evaluation form; outputs: the values that the losses read.
  std::vector<double> eval_micro(const Losses& losses, const Tensors& batch, Tensors* outputs = nullptr);
  // Model outputs by name (source values), in evaluation form.
  // full_precision: without the precision plan.
  Tensors forward(const std::vector<int>& outputs, const Tensors& batch, bool full_precision = false);

  // Compiles the training program of a batch and freezes every parameter that no gradient reaches, so that neither
  // decay nor momentum moves it (torch.optim skips parameters whose grad is None). Before an Optimizer copies the
  // layout, and before anyone keeps params(), param() or grads(): the arenas may move.
  void prepare(const Losses& losses, const Tensors& batch);

  const SourceGraph& source() const { return source_; }
  const ParamTable& table() const { return table_; }
  DType float_type() const { return arena_.type(); }
  Device& device() const { return arena_.device(); }
  RunState& state() { return state_; }
  PaddingGuard& padding_guard() { return padding_.guard(); }

  // ParameterArena's.
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
  bool has_grad(int slot) const { return arena_.reached(slot); }  // after a training micro-batch
  const ParamCache& copies() const { return arena_.copies(); }
  void describe(UpdateSpec& spec) const { arena_.describe(spec); }

  int64_t activation_bytes() const { return programs_.activation_bytes(); }
  const std::string& recomputed() const { return programs_.recomputed(); }
  size_t programs() const { return programs_.size(); }
  std::string memory_text() const;  // for people: "parameters 65.8 MiB, gradients 65.8 MiB, ..."

  // Whether a training micro-batch of it is computed without padding.
  bool packs(const Losses& losses, const Tensors& batch);
  // The graph that forward() runs, and the one of a training micro-batch with its padding, before nodes are fused: for
  // plans, costs and tests.
  std::shared_ptr<const Graph> forward_graph(const std::vector<int>& outputs, const Tensors& batch) const;
  std::shared_ptr<const Graph> train_graph(const Losses& losses, const Tensors& batch) const;

 private:
  // The program of a batch, fed.
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
};

}  // namespace amp
