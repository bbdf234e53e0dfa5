#include "tests/cuda/trained.h"

#include <algorithm>
#include <catch2/catch_all.hpp>

#include "precision/decide.h"
#include "precision/op_list.h"
#include "tests/cuda/gpu.h"
#include "tests/support.h"
#include "trainer/loop/step_engine.h"

namespace amp::test {

std::vector<std::filesystem::path> zoo_entries() {
  std::vector<std::filesystem::path> out;
  for (const auto& e : std::filesystem::directory_iterator(test_data() + "/zoo")) {
    if (e.is_directory()) out.push_back(e.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

static SessionOptions options_of(const Golden& g, DType low) {
  SessionOptions o;
  o.batchnorm_train = g.batch_statistics;
  if (low != DType::f32) {
    o.low = low;
    const PrecisionPlan plan = decide(g.model.graph, preset("O1"), low);
    for (const Decision& d : plan.nodes) o.compute.push_back(dtype_of(d.compute));
  }
  return o;
}

std::shared_ptr<const Graph> planned_graph(const Golden& g, DType low) {
  return Session(g.model.graph, options_of(g, low)).train_graph(g.loss, g.batch);
}

void prepare_training(const Golden& g, Device& device, DType low) {
  SessionOptions o = options_of(g, low);
  o.device = &device;
  Session(g.model.graph, o).prepare(g.loss, g.batch);
}

HostTensor trained(const Golden& g, Device& device, DType low, int steps, bool fusion) {
  SessionOptions o = options_of(g, low);
  o.fusion = fusion;
  o.device = &device;
  LossScaleConfig scale;
  scale.init = 1024;
  if (low != DType::f16) scale.mode = LossScaleConfig::Mode::off;
  Session session(g.model.graph, o);
  session.prepare(g.loss, g.batch);
  ScheduleConfig schedule;
  schedule.kind = "constant";
  schedule.lr = 1e-3;
  schedule.total_steps = steps;
  const Losses losses = g.loss;
  StepEngine engine(session, {}, schedule, scale, losses, steps);
  for (int step = 0; step < steps; ++step) {
    LossAccumulator counted(losses);
    counted.count(g.batch);
    engine.submit({step, &losses, {g.batch}, {1}, false}, counted);
    REQUIRE(engine.take(true).has_value());
  }
  const HostTensor span = session.host_params();
  return HostTensor::of<float>(span.dims(), std::vector<float>(span.as<float>(), span.as<float>() + span.numel()));
}

}  // namespace amp::test
