// Search over precision plans. For each preset list, groups of nodes that overflow become fp32, and the other groups
// are ranked by their estimated error (precision/calibration.h). Bisection then finds how many of the worst groups must
// be fp32. Each attempt compiles a Session and compares its loss and gradients with those of one fp32 run.

#include "trainer/loop/calibrate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "base/activity.h"
#include "base/error.h"
#include "base/text.h"
#include "trainer/loop/micro_batches.h"

namespace amp {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Outcome {
  double loss = 0;
  bool finite = true;
};

// Computes the mean loss of all batches. The gradients, multiplied by scale, remain in the session's arena.
Outcome run_batches(Session& session, const Losses& loss, const std::vector<Tensors>& batches, double scale,
                    const Instrumentation* look) {
  // counts the items of all batches, so that gradients are those of the mean loss, as in training
  LossAccumulator window(loss);
  for (const Tensors& batch : batches) window.count(batch);
  const std::vector<double> seeds = window.seeds(scale);
  window.add(run_micro_batches(session, loss, batches, seeds, look));
  Outcome out;
  out.loss = window.loss();
  const HostTensor grads = session.host_grads();
  const float* g = grads.as<float>();
  out.finite = std::isfinite(out.loss) &&
               std::all_of(g, g + session.layout().trained_size(), [](float v) { return std::isfinite(v); });
  return out;
}

}  // namespace

Measured measure_ranges(const SourceGraph& g, const SessionOptions& options, const Losses& loss,
                        const std::vector<Tensors>& batches) {
  if (batches.empty())
    fail(Exit::usage, "E_CALIBRATE_DATA", "there is no batch to calibrate on", "give data with `train`");
  Measured out;
  out.nodes.resize(g.nodes.size());
  out.inputs.resize(g.values.size());
  for (const Tensors& batch : batches) {
    for (const auto& [name, t] : batch) {
      const int v = g.find(name);
      if (v < 0 || !is_float(t.dtype())) continue;
      const HostTensor data = t.cast(DType::f32);
      out.inputs[static_cast<size_t>(v)].add(data.as<float>(), data.numel());
    }
  }
  SessionOptions fp32 = options;
  fp32.compute.clear();
  Session session(g, fp32);
  const Program::Observer see = [&](const Node& node, size_t, const Tensor& t) {
    const int n = node.origin.source_node;
    if (n < 0 || t.dtype != DType::f32) return;
    const bool backward = std::strcmp(node.origin.role, "gradient of") == 0;
    NodeRanges& r = out.nodes[static_cast<size_t>(n)];
    (backward ? r.gradient : r.value).add(static_cast<const float*>(t.data), t.numel());
  };
  const Instrumentation look{[&](Program& p) { p.run(see); }, false};
  const Outcome outcome = run_batches(session, loss, batches, 1, &look);
  if (!outcome.finite) {
    fail(Exit::numerical, "E_CALIBRATE", "the fp32 run over the calibration data is not finite",
         "no plan can be better: check the data and the model first");
  }
  out.loss = outcome.loss;
  // On the CPU this is a view of the session's arena, so it is copied below.
  const HostTensor grads = session.host_grads();
  out.gradients =
      HostTensor::of<float>(grads.dims(), std::vector<float>(grads.as<float>(), grads.as<float>() + grads.numel()));
  return out;
}

namespace {

class Search {
 public:
  Search(const SourceGraph& g, const Losses& loss, const std::vector<Tensors>& batches, const CalibrateOptions& o)
      : g_(g),
        loss_(loss),
        batches_(batches),
        o_(o),
        rtol_(o.rtol > 0            ? o.rtol
              : o.low == DType::f16 ? 1e-2
                                    : 8e-2),
        fp32_(measure_ranges(g, o.session, loss, batches)) {}

  CalibratedPlan run() {
    std::optional<CalibratedPlan> best;
    for (const std::string& base : o_.bases) {
      CalibratedPlan found = from(base);
      if (!best || (found.within && !best->within) ||
          (found.within == best->within && found.low_share > best->low_share)) {
        best = std::move(found);
      }
    }
    return std::move(*best);
  }

 private:
  CalibratedPlan from(const std::string& base) {
    OpList list = load_op_list(base);
    list.dtype = o_.low;
    PrecisionPlan plan = decide(g_, list, o_.low);
    const Calibration c = summarize_ranges(g_, plan, fp32_.nodes, fp32_.inputs);
    for (const PlanGroup& group : c.overflow) add(list, group);
    if (o_.low == DType::f16 && list.loss_scale.mode == LossScaleConfig::Mode::dynamic) {
      list.loss_scale.init = std::clamp(c.loss_scale, std::max(list.loss_scale.min, 1.0), list.loss_scale.max);
    }
    // Tries the plan without additional fp32 groups first. Then bisects for the smallest number of groups that must be
    // fp32.
    CalibratedPlan kept = attempt(list, c, 0, base);
    if (kept.within) return kept;
    size_t bad = 0, good = c.ranked.size();
    kept = attempt(list, c, good, base);
    while (good - bad > 1) {
      const size_t middle = (bad + good) / 2;
      CalibratedPlan tried = attempt(list, c, middle, base);
      (tried.within ? good : bad) = middle;
      if (tried.within) kept = std::move(tried);
    }
    return kept;
  }

  void add(OpList& list, const PlanGroup& group) const {
    for (PrecisionRule& rule : rules_for(g_, group)) list.rules.push_back(std::move(rule));
  }

  CalibratedPlan attempt(OpList list, const Calibration& c, size_t fp32_groups, const std::string& base) {
    for (size_t i = 0; i < fp32_groups; ++i) add(list, c.ranked[i]);
    CalibratedPlan out;
    out.plan = decide(g_, list, o_.low);
    out.error = error_of(out.plan);
    out.within = out.error <= rtol_;
    out.low_share = low_share(out.plan);
    if (o_.say) {
      o_.say(cat(base, ": ", c.overflow.size(), " groups fp32 for their range, ", fp32_groups, " of ", c.ranked.size(),
                 " for their error: error ", out.error, out.within ? " <= " : " > ", rtol_, ", ",
                 static_cast<int>(100 * out.low_share + 0.5), " % of the elements in 16 bit"));
    }
    return out;
  }

  double error_of(PrecisionPlan& plan) {
    SessionOptions options = o_.session;
    options.low = plan.low;
    options.compute.clear();
    for (const Decision& d : plan.nodes) options.compute.push_back(dtype_of(d.compute));
    Session session(g_, options);
    // Halves the plan's loss scale until all gradients are finite, as dynamic loss scaling would.
    double scale = plan.any_f16() ? plan.list.loss_scale.init : 1;
    for (;; scale /= 2) {
      const Outcome out = run_batches(session, loss_, batches_, scale, nullptr);
      if (out.finite) {
        if (plan.any_f16()) plan.list.loss_scale.init = scale;
        return std::max(relative(out.loss), gradient_error(session, scale));
      }
      if (scale <= std::max(1.0, plan.list.loss_scale.min) || !std::isfinite(out.loss)) return kInfinity;
    }
  }
  double relative(double loss) const { return std::abs(loss - fp32_.loss) / std::max(std::abs(fp32_.loss), 1e-12); }
  double gradient_error(const Session& session, double scale) const {
    const float* want = fp32_.gradients.as<float>();
    const HostTensor grads = session.host_grads();
    const float* got = grads.as<float>();
    double error = 0, norm = 0;
    for (int64_t i = 0; i < fp32_.gradients.numel(); ++i) {
      const double d = got[i] / scale - want[i];
      error += d * d;
      norm += static_cast<double>(want[i]) * want[i];
    }
    return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
  }

  double low_share(const PrecisionPlan& plan) const {
    double low = 0, all = 0;
    for (size_t n = 0; n < plan.nodes.size(); ++n) {
      const auto elements = static_cast<double>(fp32_.nodes[n].value.count() + fp32_.nodes[n].gradient.count());
      all += elements;
      if (plan.nodes[n].compute != Compute::f32) low += elements;
    }
    return all > 0 ? low / all : 0;
  }

  const SourceGraph& g_;
  const Losses& loss_;
  const std::vector<Tensors>& batches_;
  const CalibrateOptions& o_;
  const double rtol_;
  const Measured fp32_;
};

}  // namespace

CalibratedPlan calibrate(const SourceGraph& g, const Losses& loss, const std::vector<Tensors>& batches,
                         const CalibrateOptions& options) {
  const Activity calibrating("measuring precision plans");
  return Search(g, loss, batches, options).run();
}

}  // namespace amp
