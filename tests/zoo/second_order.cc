// Runs a golden case of a second-order optimizer: gradients, Hessian-vector products with the golden random vectors,
// and steps. An attempted step can be made to overflow, to test that it is repeated.
#include "tests/zoo/second_order.h"

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstring>

#include "trainer/loop/step_engine.h"

namespace amp::test {

using nlohmann::json;

namespace {

OptimizerConfig config_of(const json& run) {
  OptimizerConfig c;
  c.rule = run.at("rule");
  std::map<std::string, double> given;
  for (const char* key : {"eps", "rho", "hessian_update_interval"}) {
    if (run.contains(key)) given[key] = run[key];
  }
  c.settings = rule_settings(c.rule, given);
  return c;
}

}  // namespace

Tensors rows_of(const Tensors& batch, int64_t from, int64_t count) {
  Tensors out;
  for (const auto& [name, t] : batch) {
    Dims dims = t.dims();
    const int64_t row = t.bytes() / dims.at(0);
    dims[0] = count;
    HostTensor part = HostTensor::empty(t.dtype(), dims);
    std::memcpy(part.mutable_data(), static_cast<const char*>(t.data()) + from * row,
                static_cast<size_t>(part.bytes()));
    out[name] = part;
  }
  return out;
}

SecondOrderRun train_second_order(const Golden& g, const json& run, const SecondOrderSetup& setup) {
  SessionOptions o;
  o.device = setup.device;
  o.decay_exclude = DecayExclude::none;
  Session session(g.model.graph, o);
  const Losses losses = g.loss;
  std::vector<Tensors> window;
  const int64_t rows = g.batch.begin()->second.dims().at(0), part = rows / setup.parts;
  for (int64_t m = 0; m < setup.parts; ++m) window.push_back(rows_of(g.batch, m * part, part));
  session.prepare(losses, window[0]);
  const auto steps = static_cast<int64_t>(run.at("losses").size());
  ScheduleConfig schedule;
  schedule.kind = "constant";
  schedule.lr = run.at("lr");
  schedule.total_steps = steps;
  LossScaleConfig scale;
  scale.mode = LossScaleConfig::Mode::fixed;
  scale.init = setup.scale;
  StepEngine engine(session, config_of(run), schedule, scale, losses, steps);
  SecondOrderRun out;
  int64_t attempted = 0;
  for (int64_t step = 0; step < steps; ++attempted) {
    LossAccumulator counted(losses);
    for (const Tensors& b : window) counted.count(b);
    const bool overflow = attempted == setup.overflow;
    // The random vectors depend on the number of the step, which a step that is repeated after an overflow keeps.
    engine.submit({step, &losses, window, std::vector<int64_t>(window.size(), part), overflow}, counted);
    const std::optional<StepResult> r = engine.take(true);
    REQUIRE(r.has_value());
    REQUIRE(r->skipped() == overflow);
    if (overflow) continue;
    out.losses.push_back(r->loss);
    ++step;
  }
  for (size_t i = 0; i < session.table().size(); ++i)
    out.params[session.layout().chunks()[i].name] = session.param(static_cast<int>(i)).to_doubles();
  return out;
}

double distance(const SafeTensors& golden, const std::string& run, const SecondOrderRun& have) {
  double worst = 0;
  size_t compared = 0;
  for (const NamedTensor& t : golden.tensors) {
    if (t.name.compare(0, run.size() + 1, run + "/") != 0) continue;
    const std::vector<double>& x = have.params.at(t.name.substr(run.size() + 1));
    const std::vector<double> want = t.tensor.to_doubles();
    const size_t stride = (x.size() + 127) / 128;
    REQUIRE(want.size() == (x.size() + stride - 1) / stride);
    for (size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::abs(x[i * stride] - want[i]));
    ++compared;
  }
  CHECK(compared > 3);
  return worst;
}

}  // namespace amp::test
