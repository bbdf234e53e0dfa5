#include "small_run.h"

#include <random>
#include <sstream>

#include "../precision/text_graph.h"
#include "laid_out.h"
#include "trainer/loop/micro_batches.h"

namespace amp::test {

HostTensor normal(Dims dims, double scale, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> draw(0, scale);
  std::vector<float> x(static_cast<size_t>(numel(dims)));
  for (float& v : x) v = static_cast<float>(draw(random));
  return HostTensor::of<float>(dims, x);
}

SourceGraph random_graph(const std::string& text, const std::string& scales) {
  SourceGraph g = text_graph(text);
  std::istringstream in(scales);
  std::string name;
  double scale;
  for (uint64_t seed = 1; in >> name >> scale; ++seed) {
    SourceValue& v = g.values.at(static_cast<size_t>(g.find(name)));
    v.data = normal(v.data.dims(), scale, seed);
  }
  for (SourceValue& v : g.values) v.trainable = v.kind == SourceKind::parameter;
  return g;
}

RunResult run(const SourceGraph& g, const PrecisionPlan* plan, const LossSpec& loss, const Tensors& batch,
              const RunOptions& o) {
  SessionOptions s;
  if (plan) {
    s.low = plan->low;
    for (const Decision& d : plan->nodes) s.compute.push_back(dtype_of(d.compute));
  }
  Session session(g, s);
  session.prepare(loss, batch);
  auto* params = static_cast<float*>(session.params());
  const auto* grads = static_cast<const float*>(session.grads());
  LaidOut<float> optimizer(o.optimizer, session.layout(), params);
  LossScaler scaler(o.scale);
  const std::vector<double> items = count_items(loss, batch.at("label"));
  RunResult out;
  for (int step = 0; step < o.steps; ++step) {
    const double scale = scaler.scale();
    const std::vector<double> sums = run_micro_batch(session, loss, batch, {scale / items.at(0)}, false);
    out.loss.push_back(sums.at(0) / items.at(0));
    const GradStats stats = optimizer.inspect(grads, scale);
    if (optimizer.apply(params, grads, scale, stats, o.lr)) {
      for (int64_t i = 0; o.low_weights && i < session.layout().size(); ++i)
        params[i] = Half::decode(Half::encode(params[i]));
      session.set_params(session.host_params());
    }
    const StepScale r = scaler.update(stats.found_inf);
    ++(r.applied ? out.applied : out.skipped);
    out.last_scale = r.next;
  }
  return out;
}

}  // namespace amp::test
