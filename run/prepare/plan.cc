// Builds, measures and renders precision plans for the verb `plan`. The cost comes from a compiled graph: a forward
// graph with zero inputs, or the training graph of the first micro-batch.
#include "run/prepare/plan.h"

#include "base/text.h"
#include "precision/plan_diff.h"
#include "precision/plan_io.h"
#include "precision/plan_view.h"
#include "run/model/fixed_shapes.h"
#include "run/prepare/prepare.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

std::optional<PlanCost> forward_cost(const RunSpec& spec, const SourceGraph& g, const PrecisionPlan& plan,
                                     const Log& log) try {
  Tensors batch;
  for (const int v : needed_inputs(g, g.outputs)) {
    const SourceValue& x = g.values[static_cast<size_t>(v)];
    Dims dims;
    for (size_t i = 0; i < x.dims.size(); ++i)
      dims.push_back(x.dims[i].value > 0 ? x.dims[i].value : i == 0 ? spec.schedule.batch_size : 32);
    batch[x.name] = HostTensor::zeros(x.dtype, dims);
  }
  Session session(g, session_options(spec, Job::plan, plan, log));
  PlanCost cost = measure_plan(*session.forward_graph(g.outputs, batch), g.nodes.size());
  for (const auto& [name, t] : batch) cost.shapes[name] = t.dims();
  return cost;
} catch (const Error& e) {
  if (e.exit() == Exit::internal) throw;
  log.note(cat("no casts and bytes without data: ", e.fact()));
  return std::nullopt;
}

std::string cost_line(const PlanCost& cost) {
  int64_t weights = 0, weight_bytes = 0, values = 0, value_bytes = 0, gradients = 0, gradient_bytes = 0;
  for (const CastCost& c : cost.casts()) {
    ++(c.weight ? weights : c.backward ? gradients : values);
    (c.weight ? weight_bytes : c.backward ? gradient_bytes : value_bytes) += c.bytes;
  }
  std::string shapes;
  for (const auto& [name, dims] : cost.shapes)
    shapes += cat(shapes.empty() ? "" : ", ", printable(name), " ", to_string(dims));
  return cat("casts: ", values, " of values (", with_thousands(value_bytes), " B), ", gradients, " of gradients (",
             with_thousands(gradient_bytes), " B) in a micro-batch; ", weights, " of weights (",
             with_thousands(weight_bytes), " B) in a step; ", with_thousands(cost.stored_bytes()),
             " B stored forward; for ", shapes, "\n");
}

}  // namespace

PlannedModel plan_model(const RunSpec& spec, const Log& log) {
  PlannedModel out;
  out.graph = open_model(spec, Job::plan, log).graph;
  fix_shapes(out.graph, out.graph.outputs);
  tie_rows(spec.model, out.graph, out.graph.outputs, log);
  out.plan = choose_low_plan(spec.precision, Job::plan, out.graph, log);
  out.cost = forward_cost(spec, out.graph, out.plan, log);
  return out;
}

std::string plan_json(const RunSpec& spec, const Log& log) {
  const Imported model = open_model(spec, Job::plan, log);
  return plan_to_json(model.graph, choose_low_plan(spec.precision, Job::plan, model.graph, log));
}

PlannedModel measure_model(const RunSpec& spec, const Log& log) {
  const std::unique_ptr<PreparedRun> run = prepare(spec, {log, {}, {}}, Mode::measure_plan);
  PlannedModel out;
  {
    Session session(run->graph(), session_options(spec, Job::plan, run->plan, log));
    const Tensors batch = first_batch(*run);
    session.prepare(run->config.objective.losses, batch);
    out.cost = measure_plan(*session.train_graph(run->config.objective.losses, batch), run->graph().nodes.size());
  }
  out.plan = std::move(run->plan);
  out.graph = std::move(run->graph());
  return out;
}

std::string render(const PlannedModel& planned, const std::string& format) {
  const PlanCost* cost = planned.cost ? &*planned.cost : nullptr;
  if (format == "dot") return plan_to_dot(planned.graph, planned.plan);
  if (format == "text") return explain_plan(planned.graph, planned.plan) + (cost ? cost_line(*cost) : "");
  const std::string json = plan_to_json(planned.graph, planned.plan, cost);
  return format == "html" ? plan_to_html(planned.graph, json) : json;
}

std::string compare_plans(const std::string& a, const std::string& a_name, const std::string& b,
                          const std::string& b_name) {
  return diff_plans(a, a_name, b, b_name);
}

}  // namespace amp
