// write_gradients() of evaluate.h: one forward and backward pass with the loss scaling of a training step. The
// gradients are written only if all of them are finite.
#include <cmath>

#include "base/file.h"
#include "base/npz.h"
#include "base/text.h"
#include "precision/loss_scaler.h"
#include "run/data/data.h"
#include "run/evaluate/evaluate.h"
#include "run/evaluate/gradient_tensors.h"
#include "run/model/fixed_inputs.h"
#include "run/model/fixed_shapes.h"
#include "run/model/operator_advice.h"
#include "run/prepare/common.h"
#include "run/prepare/config.h"
#include "run/prepare/losses.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"
#include "trainer/compile/first_nonfinite.h"
#include "trainer/loop/micro_batches.h"

namespace amp {

namespace {
struct Pass {
  std::vector<double> sums;            // sums of the loss terms
  double scale = 1;                    // the loss scale by which the gradients are multiplied
  std::shared_ptr<const Graph> graph;  // the graph that ran
};

// Repeats forward and backward until the gradients are finite or the scale cannot be lowered further.
Pass run_scaled(Session& session, const Losses& losses, const Tensors& batch, const LossAccumulator& window,
                LossScaler scaler, const Log& log) {
  for (;;) {
    Pass pass;
    pass.scale = scaler.scale();
    const Instrumentation look{[&](Program& p) {
      pass.graph = p.graph();
      p.run();
    }};
    pass.sums = run_micro_batches(session, losses, {batch}, window.seeds(pass.scale), &look);
    const StepScale step = scaler.update(scaler.enabled() && (pass.scale == 0 || first_bad_slot(session) >= 0));
    if (step.applied || step.at_floor) {
      if (!step.applied) log.warning(cat("gradients are not finite at the loss scale ", pass.scale));
      return pass;
    }
  }
}

// Fails if a gradient is not finite, and names the parameter and the first non-finite value of the graph.
void require_finite(Session& session, const Losses& losses, const Tensors& batch, const std::vector<double>& seeds) {
  const int slot = first_bad_slot(session);
  if (slot < 0) return;
  const std::string value = first_nonfinite_value(session, losses, {batch}, seeds);
  fail(Exit::numerical, "E_GRADIENT_NONFINITE",
       cat("the gradient of '", printable(session.layout().chunks()[static_cast<size_t>(slot)].name), "' is not finite",
           value.empty() ? "" : "; ", value, "; nothing was written"),
       "try `dtype` fp64: if the gradient is finite then, it overflowed");
}

}  // namespace

GradientsReport write_gradients(const RunSpec& spec, const std::string& inputs, const std::string& out,
                                const std::string& dump_graph, const Log& log) {
  set_threads(spec.device, log);
  require_tensor_file(out);
  requested_losses(spec.objective);
  Imported model = open_model(spec, Job::gradients, log);
  bind_fixed_inputs(model.graph, {inputs}, true, log);
  SourceGraph& g = model.graph;
  const Tensors batch = read_batch(inputs, g, log);
  Losses losses = choose_losses(spec.model, spec.objective, g);
  log_losses(losses, bypass_output_activations(g, losses), log);
  require_known_operators(g, values_of(g, losses));
  log_fixed_shapes(fix_shapes(g, values_of(g, losses)), log);
  tie_rows(spec.model, g, values_of(g, losses), log);
  const PrecisionPlan plan = choose_plan(spec.precision, Job::gradients, g, log);
  Session session(g, session_options(spec, Job::gradients, plan, log));
  LossAccumulator window(losses);
  window.count(batch);
  const LossScaler scaler(base_loss_scale(spec.precision, plan));
  const Pass pass = run_scaled(session, losses, batch, window, scaler, log);
  window.add(pass.sums);
  require_finite(session, losses, batch, window.seeds(pass.scale));
  const std::vector<NamedTensor> tensors = gradient_tensors(session, pass.scale);
  write_tensor_file(out, tensors);
  if (!dump_graph.empty()) {
    FileWriter text(dump_graph);
    text.write(pass.graph->dump());
    text.commit();
  }
  GradientsReport report{window.loss(), tensors.size(), session.packs(losses, batch), std::nullopt};
  if (scaler.enabled()) report.loss_scale = pass.scale;
  return report;
}

}  // namespace amp
