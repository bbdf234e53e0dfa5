// GraphCompiler: compiles a model, losses and the shapes of a batch into the graph that a micro-batch runs. It does not
// use device memory, and equal requests give equal graphs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/device.h"
#include "graph/bind.h"
#include "trainer/compile/graph_names.h"
#include "trainer/losses/losses.h"

namespace amp {

struct GraphOptions {
  DType float_type = DType::f32;  // f64 for checks
  std::vector<DType> compute;     // type of each source node; empty: all nodes compute in float_type
  DType low = DType::f16;         // the plan's 16-bit type
  bool batchnorm_train = false;
  bool sync_batchnorm = false;  // batch statistics over all ranks of the run
  // In evaluation, BatchNorm nodes in training mode use batch statistics, as in inference engines.
  bool batchnorm_as_written = false;
  // Fuses additions with norms (ops/passes/add_norm_fusion.h) and elementwise nodes (ops/passes/fuse.h), if the device
  // profits (DeviceTraits).
  bool fusion = true;
  // Limit in bytes for the activations of a training graph. The backward pass recomputes as much of the forward pass as
  // the limit requires (trainer/compile/memory_budget.h). 0: no limit.
  int64_t activation_budget = 0;
};

// Kinds of compiled graphs ("the losses" are GraphRequest::losses):
// train: the training graph.
// hessian: the training graph differentiated twice. The gradient of each parameter is replaced by the elements of H v
// that belong to the parameter. H contains the second derivatives of the losses times their seeds; v is an input for
// every parameter.
// diagonal: as hessian, but with v * H v, elementwise.
// drawn: the training graph without the precision plan, with labels that are sampled from the outputs.
// cached_train: the training graph, where the gradients of losses across rows with respect to the outputs are read from
// inputs (trainer/loop/gradient_cache.h).
// cached_forward: exactly the forward nodes of cached_train.
// eval: the graph of evaluation. eval_full: eval without the precision plan.
enum class GraphForm : uint8_t { train, hessian, diagonal, drawn, cached_train, cached_forward, eval, eval_full };
inline bool differentiates_twice(GraphForm f) { return f == GraphForm::hessian || f == GraphForm::diagonal; }
inline bool reads_cache(GraphForm f) { return f == GraphForm::cached_train || f == GraphForm::cached_forward; }
inline bool differentiates_once(GraphForm f) {  // cached_forward too: drop_backward() removes the backward pass later
  return f == GraphForm::train || f == GraphForm::drawn || reads_cache(f);
}
inline bool differentiates(GraphForm f) { return differentiates_once(f) || differentiates_twice(f); }
// Returns true if the graph writes curvature for the parameters instead of the losses' gradients.
inline bool estimates_curvature(GraphForm f) { return f == GraphForm::diagonal || f == GraphForm::drawn; }

// A request for a graph. Only the names, types and shapes of the batch are used.
struct GraphRequest {
  GraphForm form = GraphForm::eval;
  const Losses* losses = nullptr;  // null: only outputs
  std::vector<int> outputs;        // values that the graph outputs, as indices in SourceGraph::values
  const Tensors& batch;
};

class GraphCompiler {
 public:
  // `source` and `table` must outlive the compiler.
  GraphCompiler(const SourceGraph& source, const ParamTable& table, const GraphOptions& options,
                const DeviceTraits& traits)
      : source_(source), table_(table), options_(options), traits_(traits) {}

  // Compiles a graph. Its outputs are the requested values under their names, "loss.I" for the sum of loss term I, and
  // running statistics.
  std::shared_ptr<Graph> compile(const GraphRequest& r) const { return finish(compose(r), r); }
  // The two halves of compile(); padding may be removed between them. compose() binds the model, adds the losses and
  // forms fused operators. finish() applies the precision plan (none if differentiated twice) and adds losses of
  // gradients. For training it adds an input "seed.I" per loss term and the parameters' gradients.
  std::shared_ptr<Graph> compose(const GraphRequest& r) const;
  std::shared_ptr<Graph> finish(std::shared_ptr<Graph> composed, const GraphRequest& r) const;
  void fuse(Graph& graph) const;  // runs the last passes, if options.fusion is set
  // Removes the backward pass of a cached_forward graph, fused or not. The remaining nodes equal the training graph's.
  void drop_backward(Graph& graph, const GraphRequest& r) const;

  // Returns the source values that the losses read, each once. Throws E_LOSS_IO if one does not exist.
  std::vector<int> loss_values(const Losses& losses) const;
  // Returns a compiler of the same model that ignores the precision plan.
  GraphCompiler without_plan() const;
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

}  // namespace amp
