// Order of the passes:
// - compose(): bind (ONNX operators to core operators), losses, prune, fused operators, slice hoisting;
// - padding removal, if the batch is packed;
// - finish(): merged Q, K and V, precision plan, gradient penalties, differentiation, casts;
// - fuse(), which depends on the device.
// finish() differentiates after it has applied the precision plan, so gradients have the plan's types.

#include "trainer/compile/graph_compiler.h"

#include <algorithm>
#include <map>

#include "backend/interpreter.h"
#include "base/error.h"
#include "base/text.h"
#include "graph/autodiff.h"
#include "graph/decompositions.h"
#include "graph/passes.h"
#include "ops/matmul_gelu.h"
#include "ops/norm_sums.h"
#include "ops/passes/add_norm_fusion.h"
#include "ops/passes/batch_norm_fusion.h"
#include "ops/passes/channels_last.h"
#include "ops/passes/fuse.h"
#include "ops/passes/fused_operators.h"
#include "ops/passes/norm_recomputation.h"
#include "ops/passes/qkv.h"
#include "ops/passes/repeat_nodes.h"
#include "ops/passes/slice_hoisting.h"
#include "precision/apply.h"
#include "trainer/compile/gradient_penalty.h"
#include "trainer/losses/loss.h"

namespace amp {

// Returns the values of the outputs "loss.0", "loss.1", ..., in this order.
static std::vector<ValueId> loss_sums(const Graph& graph) {
  std::map<std::string, ValueId> by_name;
  for (const Graph::Output& o : graph.outputs) by_name.emplace(o.name, o.value);
  std::vector<ValueId> out;
  for (size_t i = 0; by_name.count(loss_output(i)); ++i) out.push_back(by_name.at(loss_output(i)));
  return out;
}

GraphCompiler GraphCompiler::without_plan() const {
  GraphOptions options = options_;
  options.compute.clear();
  return {source_, table_, options, traits_};
}

std::vector<int> GraphCompiler::values_named(const std::vector<std::string>& wanted) const {
  std::vector<int> out;
  for (const std::string& name : wanted) {
    const int v = source_.find(name);
    if (v < 0) {
      std::vector<std::string> names;
      for (const int o : source_.outputs) names.push_back(source_.values[static_cast<size_t>(o)].name);
      const std::string near = nearest(name, names);
      fail(Exit::usage, "E_LOSS_IO", cat("the model has no output '", printable(name), "'"),
           near.empty() ? "outputs: " + join(names, ", ") : "did you mean '" + near + "'?");
    }
    out.push_back(v);
  }
  return out;
}

// Returns the values of the model that a loss reads.
static std::vector<std::string> read_values(const LossSpec& s) {
  std::vector<std::string> out = s.values();
  out.insert(out.end(), s.reference.begin(), s.reference.end());
  return out;
}

std::vector<int> GraphCompiler::loss_values(const Losses& losses) const {
  std::vector<int> out;
  for (const LossSpec& s : losses.parts) {
    for (const int v : values_named(read_values(s))) {
      if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
    }
  }
  return out;
}

// Returns labels that are sampled from the model's outputs. Each random number depends on the index of the row within
// the accumulation step.
static ValueId drawn_label(Builder& b, const LossSpec& spec, const LossInputs& in, size_t term) {
  constexpr int64_t kSite = 0x536f7068;  // an RNG stream id that other random nodes do not use
  const DType type = b.dtype(in.outputs[0]);
  const int64_t rows = in.rows > 0 && numel(b.dims(in.label)) % in.rows == 0 ? in.rows : 1;
  const ValueId uniform =
      b.op("RandomUniform", {b.scalar(0, type), b.scalar(1, type)},
           {{"dims", b.dims(in.label)}, {"site", kSite + static_cast<int64_t>(term)}, {"rows", rows}});
  return loss_rule(spec.kind).draw(b, spec, in, uniform);
}

// Returns the inner product of the outputs with their cached gradients. Its gradient with respect to an output is that
// output's cached gradient.
static ValueId cached_term(Builder& b, const std::vector<ValueId>& outputs, size_t term) {
  ValueId sum;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const ValueId v = outputs[k];
    const ValueId gradient = b.mutable_graph().add_input(cached_input(term, k), b.dtype(v), b.dims(v));
    const ValueId part = losses::total(b, b.op("Mul", {v, gradient}));
    sum = sum ? b.op("Add", {sum, part}) : part;
  }
  return sum;
}

void GraphCompiler::build_losses(const GraphRequest& r, const Bound& bound, Builder& b) const {
  const Losses& losses = *r.losses;
  const Tensors& batch = r.batch;
  Graph& graph = b.mutable_graph();
  b.origin = Origin{-1, "loss"};
  const auto input = [&](const std::string& name) {
    if (const ValueId v = graph.input(name)) return v;  // another loss or the model already reads this tensor
    const auto it = batch.find(name);
    if (it == batch.end())
      fail(Exit::data, "E_DATA_COLUMN", cat("the data has no '", printable(name), "'"),
           "a loss needs one: add a column (tensor) of that name");
    return graph.add_input(name, is_float(it->second.dtype()) ? options_.float_type : it->second.dtype(),
                           it->second.dims());
  };
  size_t terms = 0;
  for (const LossSpec& s : losses.parts) {
    LossInputs in;
    if (loss_rule(s.kind).of_gradient)
      graph.outputs.push_back({penalized_output(terms), bound.values[static_cast<size_t>(values_named({s.input})[0])]});
    for (const int v : values_named(s.values())) in.outputs.push_back(bound.values[static_cast<size_t>(v)]);
    if (reads_cache(r.form) && loss_rule(s.kind).across_rows) {
      for (size_t t = 0; t < term_weights(s).size(); ++t, ++terms)
        graph.outputs.push_back({loss_output(terms), cached_term(b, in.outputs, terms)});
      continue;
    }
    if (const std::string label = s.label_name(); !label.empty()) in.label = input(label);
    if (const std::string label = loss_rule(s.kind).second_label; !label.empty()) in.second_label = input(label);
    for (const int v : values_named(s.reference)) in.teacher.push_back(bound.values[static_cast<size_t>(v)]);
    if (loss_rule(s.kind).teacher && s.reference.empty()) {
      for (const std::string& o : s.outputs) in.teacher.push_back(input(teacher_name(o)));
    }
    in.rows = batch_rows(losses, batch);
    if (r.form == GraphForm::drawn) in.label = drawn_label(b, s, in, terms);
    for (const ValueId sum : build_loss(b, s, in)) graph.outputs.push_back({loss_output(terms++), sum});
  }
}

std::vector<DType> GraphCompiler::plan_of(GraphForm form) const {
  const bool plain = form == GraphForm::eval_full || form == GraphForm::drawn || differentiates_twice(form);
  return plain ? std::vector<DType>{} : options_.compute;
}

std::shared_ptr<Graph> GraphCompiler::compose(const GraphRequest& r) const {
  const Evaluator evaluator = cpu_evaluator();
  const bool train = differentiates(r.form);
  auto graph = std::make_shared<Graph>();
  {
    Builder b(*graph, evaluator);
    BindOptions o;
    o.float_type = options_.float_type;
    o.train = train;
    o.batchnorm_train = train && options_.batchnorm_train;
    o.sync_batchnorm = options_.sync_batchnorm;
    o.batchnorm_as_written = !train && options_.batchnorm_as_written;
    o.outputs = r.outputs;
    std::vector<int> values = r.losses ? loss_values(*r.losses) : std::vector<int>{};
    o.outputs.insert(o.outputs.end(), values.begin(), values.end());
    values = r.losses ? values_named(penalized_values(*r.losses)) : std::vector<int>{};
    o.outputs.insert(o.outputs.end(), values.begin(), values.end());
    for (const auto& [name, t] : r.batch) o.input_dims[name] = t.dims();
    const Bound bound = bind(source_, table_, o, b);
    for (const int v : r.outputs)
      graph->outputs.push_back({source_.values[static_cast<size_t>(v)].name, bound.values[static_cast<size_t>(v)]});
    if (r.losses) build_losses(r, bound, b);
  }
  *graph = hoist_slices(fuse_operators(prune(*graph), plan_of(r.form), evaluator), evaluator);
  return graph;
}

std::shared_ptr<Graph> GraphCompiler::finish(std::shared_ptr<Graph> graph, const GraphRequest& r) const {
  const Evaluator evaluator = cpu_evaluator();
  const GraphForm form = r.form;
  const std::vector<DType> plan = plan_of(form);
  const bool low = std::any_of(plan.begin(), plan.end(), is_low);
  // In an fp32 forward pass on the CPU, concatenating the weights of Q, K and V takes longer than one product saves.
  const bool merges = traits_.merges_qkv && (low || differentiates(form) || !traits_.host_memory);
  if (merges) *graph = merge_qkv(*graph, plan, evaluator);
  if (!plan.empty()) *graph = apply_precision(*graph, plan, options_.low, evaluator);
  if (r.losses && penalizes_gradients(*r.losses)) {
    *graph = penalize_gradients(std::move(*graph), *r.losses, evaluator);
    if (differentiates(form)) require_second_gradients(*graph, trainable(*graph), loss_sums(*graph), source_);
  }
  if (differentiates_twice(form)) {
    *graph = decompose_operators(std::move(*graph), evaluator);
    differentiate(*graph);
    *graph = decompose_operators(std::move(*graph), evaluator);
    differentiate_again(*graph, form == GraphForm::diagonal);
  }
  if (differentiates_once(form)) differentiate(*graph);
  if (differentiates(form)) *graph = absorb_casts(prune(*graph));
  if (merges && (form == GraphForm::train || reads_cache(form))) {
    *graph = part_gradients(*graph);
    if (!low && traits_.host_memory) *graph = repeat_joins(*graph);
  }
  *graph = repeat_dequantization(std::move(*graph));
  return graph;
}

std::vector<ValueId> GraphCompiler::trainable(const Graph& graph) const {
  std::vector<ValueId> out;
  for (int32_t i = 0; i < graph.n_values(); ++i) {
    const Value& v = graph.value(ValueId{i});
    if (v.kind == ValueKind::param &&
        source_.values[static_cast<size_t>(table_.source_value[static_cast<size_t>(v.slot)])].trainable)
      out.push_back(ValueId{i});
  }
  return out;
}

void GraphCompiler::differentiate(Graph& graph) const {
  Builder b(graph, cpu_evaluator());
  const std::vector<ValueId> wrt = trainable(graph);
  Autodiff ad(b, wrt);
  size_t term = 0;
  for (const ValueId sum : loss_sums(graph)) {
    const ValueId seed = graph.add_input(seed_input(term++), options_.float_type, {});
    ad.seed(sum, b.reshape(seed, b.dims(sum)));
  }
  ad.run();
  for (const ValueId p : wrt) {
    const ValueId g = ad.grad(p);
    if (g) graph.param_grads.push_back({graph.value(p).slot, g});
  }
}

// Replaces the gradients by Hessian-vector products (reverse over reverse): the gradients of <gradients, v>. The vector
// v is the seed of the second differentiation.
void GraphCompiler::differentiate_again(Graph& graph, bool times_direction) const {
  const std::vector<ValueId> wrt = trainable(graph);
  std::vector<ValueId> gradients;
  for (const auto& p : graph.param_grads) gradients.push_back(p.value);
  require_second_gradients(graph, wrt, gradients, source_);
  Builder b(graph, cpu_evaluator());
  Autodiff ad(b, wrt);
  std::map<int, ValueId> directions, products;
  for (const auto& p : graph.param_grads) {
    const Value g = graph.value(p.value);
    const ValueId v = graph.add_input(direction_input(p.slot), g.dtype, g.dims);
    directions[p.slot] = v;
    ad.seed(p.value, v);
  }
  ad.run();
  for (const ValueId p : wrt) products[graph.value(p).slot] = ad.grad(p);
  for (auto& p : graph.param_grads) {
    const Value g = graph.value(p.value);
    const ValueId product = products.at(p.slot);
    // A null product means that no gradient depends on the parameter, so its rows of H are 0.
    p.value = product ? product : b.expand(b.scalar(0, g.dtype), g.dims);
    if (times_direction) p.value = b.op("Mul", {p.value, directions.at(p.slot)});
  }
}

void GraphCompiler::drop_backward(Graph& graph, const GraphRequest& r) const {
  graph.param_grads.clear();
  std::erase_if(graph.outputs, [&](const Graph::Output& o) {
    return std::none_of(r.outputs.begin(), r.outputs.end(),
                        [&](int v) { return source_.values[static_cast<size_t>(v)].name == o.name; });
  });
  graph = prune(graph);
}

void GraphCompiler::fuse(Graph& graph) const {
  if (!options_.fusion) return;
  graph = fuse_norms(graph);
  if (traits_.activates_norms) graph = activate_batch_norms(graph);
  if (traits_.chains_low) graph = form_nhwc_regions(graph, traits_.chains_fp32, cpu_evaluator());
  if (traits_.fuses_elementwise) graph = fuse_elementwise(fuse_gelu(recompute_norms(merge_norm_sums(graph))));
}

}  // namespace amp
