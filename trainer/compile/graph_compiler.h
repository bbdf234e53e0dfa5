// GraphCompiler: a model, losses and the shapes of a batch -> the graph that a micro-batch runs. Nothing of a device's
// memory is known here, and the same request gives the same graph.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/device.h"
#include "graph/bind.h"
#include "trainer/losses/losses.h"

namespace amp {

struct GraphOptions {
  DType float_type = DType::f32;  // f64 for checks
  std::vector<DType> compute;     // by source node; empty: everything in float_type
  DType low = DType::f16;         // the plan's 16-bit type
  bool batchnorm_train = false;
  bool sync_batchnorm = false;  // over the ranks of the run
  // outside training, nodes in training form use batch statistics, as in inference engines
  bool batchnorm_as_written = false;
  // sums and norms (ops/passes/add_norm_fusion.h), elementwise nodes (ops/passes/fuse.h) are fused, where the device
  // gains by it
  bool fusion = true;
  // Bytes for the activations of a training graph: as much of its forward pass is computed again in backward as that
  // takes (trainer/compile/memory_budget.h); 0: nothing is.
  int64_t activation_budget = 0;
};

// hessian: the training graph differentiated twice; in the place of each parameter's gradient stands its part of H v, H
// the second derivatives of the losses times their seeds, v read from an input for every parameter. diagonal: v times
// H v, element by element. drawn: the training graph without the plan, of labels that are drawn from the outputs.
// cached_train: the training graph without losses across rows; what their gradients with respect to the outputs are is
// read from inputs (trainer/loop/gradient_cache.h). cached_forward: the very nodes of its forward pass, and nothing else.
// eval_full: without the precision plan.
enum class GraphForm : uint8_t { train, hessian, diagonal, drawn, cached_train, cached_forward, eval, eval_full };
inline bool differentiates_twice(GraphForm f) { return f == GraphForm::hessian || f == GraphForm::diagonal; }
inline bool reads_cache(GraphForm f) { return f == GraphForm::cached_train || f == GraphForm::cached_forward; }
inline bool differentiates_once(GraphForm f) {  // cached_forward: before its backward pass is dropped
  return f == GraphForm::train || f == GraphForm::drawn || reads_cache(f);
}
inline bool differentiates(GraphForm f) { return differentiates_once(f) || differentiates_twice(f); }
// Whether what it computes for the parameters is of curvature, and no gradient of the losses.
inline bool estimates_curvature(GraphForm f) { return f == GraphForm::diagonal || f == GraphForm::drawn; }

// Of the batch only names, types and shapes matter.
struct GraphRequest {
  GraphForm form = GraphForm::eval;
  const Losses* losses = nullptr;  // null: outputs alone
  std::vector<int> outputs;        // source values
  const Tensors& batch;
};

class GraphCompiler {
 public:
  // Source and table must outlive the compiler.
  GraphCompiler(const SourceGraph& source, const ParamTable& table, const GraphOptions& options,
                const DeviceTraits& traits)
      : source_(source), table_(table), options_(options), traits_(traits) {}

  // Outputs: the values asked for under their names, "loss.I" for the sum of loss term I, running statistics.
  std::shared_ptr<Graph> compile(const GraphRequest& r) const { return finish(compose(r), r); }
  // Its two halves; between them padding may be removed. compose: the model bound, losses, composites. finish: the
  // precision plan (none if twice), losses of gradients; in training an input "seed.I" for every loss term, and the
  // parameters' gradients.
  std::shared_ptr<Graph> compose(const GraphRequest& r) const;
  std::shared_ptr<Graph> finish(std::shared_ptr<Graph> composed, const GraphRequest& r) const;
  void fuse(Graph& graph) const;  // the last passes, with options.fusion
  // Of a cached_forward graph, fused or not: what is left is what the training graph computes, node by node.
  void drop_backward(Graph& graph, const GraphRequest& r) const;

  std::vector<int> loss_values(const Losses& losses) const;  // what they read, each once; E_LOSS_IO
  const SourceGraph& source() const { return source_; }
  const GraphOptions& options() const { return options_; }

 private:
  std::vector<int> values_named(const std::vector<std::string>& names) const;
  void build_losses(const GraphRequest& r, const Bound& bound, Builder& b) const;
  std::vector<ValueId> trainable(const Graph& graph) const;
  void differentiate(Graph& graph) const;
  void differentiate_again(Graph& graph, bool times_direction) const;
  std::vector<DType> plan_of(GraphForm form) const;

  const SourceGraph& source_;
  const ParamTable& table_;
  const GraphOptions options_;
  const DeviceTraits traits_;
};

// The names of a compiled graph's loss sums, and of the inputs that backward starts from.
std::string loss_output(size_t term);
std::string seed_input(size_t term);
std::string direction_input(int slot);  // of a hessian graph: v's part for a parameter
// Of a cached_train graph: the gradient of a loss term with respect to an output, one of its LossSpec::values().
std::string cached_input(size_t term, size_t output);

}  // namespace amp
