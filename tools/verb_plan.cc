// plan: what computes in which type, and the rule behind each decision; as a table, JSON, DOT or a page; two plans
// compared.
#include <iostream>
#include <optional>

#include "base/file.h"
#include "precision/plan_diff.h"
#include "precision/plan_io.h"
#include "tools/common.h"
#include "tools/show_plan.h"
#include "tools/verbs.h"

namespace amp {

namespace {

PrecisionPlan plan_of(const cli::Options& opts, const SourceGraph& graph) {
  // Without a type asked for, the plan of --use_fp16: explaining an all-fp32 plan helps nobody.
  const bool asked =
      opts.flag("use_fp16") || opts.flag("use_bf16") || opts.has("precision_plan") || opts.str("amp_level") == "auto";
  return asked ? choose_plan(opts, graph) : decide(graph, load_op_list(opts.str("amp_level")), DType::f16);
}

// What a forward pass costs. Dimensions that the file leaves open: --batch_size rows, 32 of all others; nothing when
// the model does not take those.
std::optional<PlanCost> forward_cost(const cli::Options& opts, const SourceGraph& g, const PrecisionPlan& plan) try {
  Tensors batch;
  for (const int v : needed_inputs(g, g.outputs)) {
    const SourceValue& x = g.values[static_cast<size_t>(v)];
    Dims dims;
    for (size_t i = 0; i < x.dims.size(); ++i)
      dims.push_back(x.dims[i].value > 0 ? x.dims[i].value : i == 0 ? opts.integer("batch_size") : 32);
    batch[x.name] = HostTensor::zeros(x.dtype, dims);
  }
  Session session(g, session_options(opts, plan));
  PlanCost cost = measure_plan(*session.forward_graph(g.outputs, batch), g.nodes.size());
  for (const auto& [name, t] : batch) cost.shapes[name] = t.dims();
  return cost;
} catch (const Error& e) {
  if (e.exit() == Exit::internal) throw;
  std::cerr << "note: no casts and bytes without data: " << e.fact() << '\n';
  return std::nullopt;
}

std::string text_of(const std::string& path) { return std::string(read_file(path).text()); }

int run_diff(const cli::Options& opts) {
  const std::string a = opts.str("diff"), b = opts.str("model");
  std::string other;
  if (extension(b) == "json") {
    other = text_of(b);
  } else {
    const Imported model = open_model(opts);
    other = plan_to_json(model.graph, plan_of(opts, model.graph));
  }
  const std::string text = diff_plans(text_of(a), a, other, b);
  if (opts.has("out")) write_plan_file(opts, text);
  std::cout << text;
  return 0;
}

}  // namespace

int run_plan(const cli::Options& opts) {
  if (opts.has("diff")) return run_diff(opts);
  if (opts.has("calibrate")) return calibrate_run(opts);
  const Imported model = open_model(opts);
  const PrecisionPlan plan = plan_of(opts, model.graph);
  const std::optional<PlanCost> cost = forward_cost(opts, model.graph, plan);
  show_plan(opts, model.graph, plan, cost ? &*cost : nullptr);
  return 0;
}

}  // namespace amp
