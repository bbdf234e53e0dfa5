// grad: the loss of one batch and the gradient of every trainable parameter, written as safetensors in fp32 under the
// parameters' ONNX names. For checks against other frameworks. Where the plan has fp16, the loss is scaled as a run's
// first applied step would have it: down from the first scale until every gradient is finite; what is written is
// unscaled.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/npz.h"
#include "base/text.h"
#include "precision/loss_scaler.h"
#include "tools/cli/values.h"
#include "tools/common.h"
#include "tools/run_losses.h"
#include "tools/verbs.h"
#include "trainer/first_nonfinite.h"
#include "trainer/launch_window.h"

namespace amp {

namespace {
// The last two dims; those before are 1.
HostTensor transposed(const HostTensor& t) {
  Dims dims = t.dims();
  const int64_t rows = dims.at(dims.size() - 2), cols = dims.back();
  std::swap(dims[dims.size() - 2], dims.back());
  HostTensor out = HostTensor::empty(DType::f32, std::move(dims));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) out.as_mutable<float>()[j * rows + i] = t.as<float>()[i * cols + j];
  }
  return out;
}

LossScaleConfig scale_config(const cli::Options& opts, const PrecisionPlan& plan) {
  LossScaleConfig c = plan.list.loss_scale;
  if (!plan.any_f16()) {
    c.mode = LossScaleConfig::Mode::off;
  } else if (opts.str("loss_scale") != "dynamic") {
    c.mode = LossScaleConfig::Mode::fixed;
    c.init = cli::parse_number(opts.str("loss_scale")).value();
  } else if (opts.was_set("loss_scale")) {
    c.mode = LossScaleConfig::Mode::dynamic;
  }
  return c;
}

// The first parameter whose gradient is not finite; -1: none.
int first_bad_slot(const Session& session) {
  for (size_t s = 0; s < session.table().size(); ++s) {
    if (!session.has_grad(static_cast<int>(s))) continue;
    for (const double x : session.grad(static_cast<int>(s)).to_doubles()) {
      if (!std::isfinite(x)) return static_cast<int>(s);
    }
  }
  return -1;
}

struct Pass {
  std::vector<double> sums;            // of the loss terms
  double scale = 1;                    // what the gradients carry
  std::shared_ptr<const Graph> graph;  // that was run
};

// Forward and backward until the scale holds, or cannot be lowered any more.
Pass run_scaled(Session& session, const Losses& losses, const Tensors& batch, const LossWindow& window,
                LossScaler scaler) {
  for (;;) {
    Pass pass;
    pass.scale = scaler.scale();
    const Instrumentation look{[&](Program& p) {
      pass.graph = p.graph();
      p.run();
    }};
    pass.sums = run_window(session, losses, {batch}, window.seeds(pass.scale), &look);
    const StepScale step = scaler.update(scaler.enabled() && (pass.scale == 0 || first_bad_slot(session) >= 0));
    if (step.applied || step.at_floor) {
      if (!step.applied) std::cerr << "warning: gradients are not finite at the loss scale " << pass.scale << '\n';
      return pass;
    }
  }
}

HostTensor unscaled(const HostTensor& grad, double scale) {
  if (scale == 1) return grad;
  HostTensor out = HostTensor::empty(DType::f32, grad.dims());  // slots may be shared by several names
  for (int64_t i = 0; i < grad.numel(); ++i)
    out.as_mutable<float>()[i] = static_cast<float>(grad.as<float>()[i] / scale);
  return out;
}

// Gradients that are not finite are not written: whose is the first, and where does it come from?
void require_finite(Session& session, const Losses& losses, const Tensors& batch, const std::vector<double>& seeds) {
  const int slot = first_bad_slot(session);
  if (slot < 0) return;
  const std::string value = first_nonfinite_value(session, losses, {batch}, seeds);
  fail(Exit::numerical, "E_GRADIENT_NONFINITE",
       cat("the gradient of '", printable(session.layout().chunks()[static_cast<size_t>(slot)].name), "' is not finite",
           value.empty() ? "" : "; ", value, "; nothing was written"),
       "--dtype fp64 tells an overflow from a formula");
}
}  // namespace

int run_grad(const cli::Options& opts) {
  set_threads(opts);
  require_tensor_file(opts.str("out"));
  asked_losses(opts);
  const Imported model = open_model(opts);
  const SourceGraph& g = model.graph;
  const Tensors batch = read_batch(opts.str("inputs"));
  Losses losses = choose_losses(opts, g);
  print_losses(losses, bypass_output_activations(g, losses));
  require_known_operators(g, values_of(g, losses));
  const PrecisionPlan plan = choose_plan(opts, g);
  Session session(g, session_options(opts, plan));
  LossWindow window(losses);
  window.count(batch);
  const LossScaler scaler(scale_config(opts, plan));
  const Pass pass = run_scaled(session, losses, batch, window, scaler);
  window.add(pass.sums);
  require_finite(session, losses, batch, window.seeds(pass.scale));

  std::vector<NamedTensor> out;
  for (size_t i = 0; i < g.values.size(); ++i) {
    const SourceValue& v = g.values[i];
    if (v.kind != SourceKind::parameter) continue;
    const int slot = session.table().slot_of[i];
    if (!session.has_grad(slot)) continue;
    const HostTensor grad = unscaled(session.grad(slot).cast(DType::f32), pass.scale);
    out.push_back({v.name, v.tied_transposed ? transposed(grad) : grad});
  }
  write_tensor_file(opts.str("out"), out);
  if (!opts.str("dump_graph").empty()) {
    FileWriter text(opts.str("dump_graph"));
    text.write(pass.graph->dump());
    text.commit();
  }
  nlohmann::json j = {{"loss", window.loss()},
                      {"parameters", out.size()},
                      {"out", opts.str("out")},
                      {"padding_removed", session.packs(losses, batch)}};
  if (scaler.enabled()) j["loss_scale"] = pass.scale;
  std::cout << j.dump() << '\n';
  return 0;
}

}  // namespace amp
