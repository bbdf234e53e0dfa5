// Session's graphs: the model bound to a batch's shapes, its losses, what passes make of both, and their gradients.
#include <algorithm>

#include "backend/interpreter.h"
#include "base/error.h"
#include "base/text.h"
#include "graph/autodiff.h"
#include "graph/passes.h"
#include "ops/add_norm_fusion.h"
#include "ops/composites.h"
#include "ops/fuse.h"
#include "ops/matmul_gelu.h"
#include "ops/qkv.h"
#include "precision/apply.h"
#include "trainer/losses/loss.h"
#include "trainer/session.h"

namespace amp {

std::vector<int> Session::values_named(const std::vector<std::string>& wanted) const {
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

std::vector<int> Session::loss_values(const Losses& losses) const {
  std::vector<int> out;
  for (const LossSpec& s : losses.parts) {
    for (const int v : values_named(s.values())) {
      if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
    }
  }
  return out;
}

void Session::build_losses(const Losses& losses, const Tensors& batch, const Bound& bound, Builder& b) const {
  Graph& graph = b.mutable_graph();
  b.origin = Origin{-1, "loss"};
  const auto input = [&](const std::string& name) {
    if (const ValueId v = graph.input(name)) return v;  // two losses, or a loss and the model, read one tensor
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
    for (const int v : values_named(s.values())) in.outputs.push_back(bound.values[static_cast<size_t>(v)]);
    if (const std::string label = s.label_name(); !label.empty()) in.label = input(label);
    if (loss_rule(s.kind).teacher) {
      for (const std::string& o : s.outputs) in.teacher.push_back(input(teacher_name(o)));
    }
    in.rows = batch_rows(losses, batch);
    for (const ValueId sum : build_loss(b, s, in)) graph.outputs.push_back({cat("loss.", terms++), sum});
  }
}

std::shared_ptr<Graph> Session::compose(Mode mode, const Losses* loss, const std::vector<int>& outputs,
                                        const Tensors& batch) {
  const Evaluator evaluator = cpu_evaluator();
  const bool train = mode == Mode::train || mode == Mode::train_accumulate;
  auto graph = std::make_shared<Graph>();
  {
    Builder b(*graph, evaluator);
    BindOptions o;
    o.float_type = options_.float_type;
    o.train = train;
    o.batchnorm_train = train && options_.batchnorm_train;
    o.batchnorm_as_written = !train && options_.batchnorm_as_written;
    o.outputs = outputs;
    const std::vector<int> values = loss ? loss_values(*loss) : std::vector<int>{};
    o.outputs.insert(o.outputs.end(), values.begin(), values.end());
    for (const auto& [name, t] : batch) o.input_dims[name] = t.dims();
    const Bound bound = bind(source_, table_, o, b);
    for (const int v : outputs)
      graph->outputs.push_back({source_.values[static_cast<size_t>(v)].name, bound.values[static_cast<size_t>(v)]});
    if (loss) build_losses(*loss, batch, bound, b);
  }
  *graph = form_composites(prune(*graph), mode == Mode::eval_full ? std::vector<DType>{} : options_.compute, evaluator);
  return graph;
}

std::shared_ptr<Graph> Session::build(Mode mode, const Losses* loss, const std::vector<int>& outputs,
                                      const Tensors& batch, const Packing* packing) {
  const Evaluator evaluator = cpu_evaluator();
  const bool train = mode == Mode::train || mode == Mode::train_accumulate;
  std::shared_ptr<Graph> graph;
  if (packing) {
    const PaddingPlan& plan = padding_plan(mode, *loss, outputs, batch);
    graph =
        std::make_shared<Graph>(remove_padding(*plan.graph, plan.mask, packing->tokens, plan.ignored, evaluator).graph);
  } else {
    graph = compose(mode, loss, outputs, batch);
  }
  if (device().traits().merges_qkv)
    *graph = merge_qkv(*graph, mode == Mode::eval_full ? std::vector<DType>{} : options_.compute, evaluator);
  if (!options_.compute.empty() && mode != Mode::eval_full)
    *graph = apply_precision(*graph, options_.compute, options_.low, evaluator);
  if (train) {
    Builder b(*graph, evaluator);
    std::vector<ValueId> wrt;
    for (int32_t i = 0; i < graph->n_values(); ++i) {
      const Value& v = graph->value(ValueId{i});
      if (v.kind == ValueKind::param &&
          source_.values[static_cast<size_t>(table_.source_value[static_cast<size_t>(v.slot)])].trainable)
        wrt.push_back(ValueId{i});
    }
    Autodiff ad(b, wrt);
    for (const auto& o : std::vector<Graph::Output>(graph->outputs)) {
      if (o.name.rfind("loss.", 0) != 0) continue;
      const ValueId seed = graph->add_input("seed." + o.name.substr(5), options_.float_type, {});
      ad.seed(o.value, b.reshape(seed, b.dims(o.value)));
    }
    ad.run();
    for (const ValueId p : wrt) {
      const ValueId g = ad.grad(p);
      if (g) graph->param_grads.push_back({graph->value(p).slot, g});
    }
    *graph = absorb_casts(prune(*graph));
  }
  return graph;
}

void Session::fuse(Graph& graph) const {
  graph = fuse_norms(graph);
  if (device().traits().fuses_elementwise) graph = fuse_elementwise(fuse_gelu(graph));
}

}  // namespace amp
