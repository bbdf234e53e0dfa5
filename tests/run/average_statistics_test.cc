// Running statistics of averaged weights against torch.optim.swa_utils.update_bn (data/statistics/make_update_bn.py).
#include "run/train/average_statistics.h"

#include <catch2/catch_all.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/safetensors.h"
#include "data/tensor_dataset.h"
#include "importer/read/import.h"
#include "tests/support.h"

using namespace amp;

TEST_CASE("running statistics are averaged over the training data", "[statistics]") {
  const std::string folder = test::test_data("statistics/");
  std::ifstream file(folder + "update_bn.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  ImportOptions o;
  o.batchnorm_train = true;
  const Imported model = import_model(folder + "model.onnx", o);
  TensorOptions t;
  t.batch_size = 4;
  InputSpec x;
  x.name = "x";
  x.dtype = DType::f32;
  x.dims = Dims{-1, 2, 6, 6};
  const auto data = make_tensor_dataset(read_safetensors(folder + "batch.safetensors").tensors, "batch", {x}, t);
  SessionOptions s;
  s.batchnorm_train = true;
  Session session(model.graph, s);
  TrainerConfig config;
  config.objective.losses = LossSpec{"cross_entropy", {"logits"}};
  config.sampler.order = Order::file;
  config.sampler.batch_size = 4;
  config.sampler.accumulation = 2;
  session.prepare(config.objective.losses,
                  {{"x", HostTensor::zeros(DType::f32, {4, 2, 6, 6})}, {"label", HostTensor::zeros(DType::i64, {4})}});
  const HostTensor before = session.host_params();
  const std::vector<float> was(before.as<float>(), before.as<float>() + before.numel());
  REQUIRE(average_statistics(session, config, *data) == golden.at("batches").get<int64_t>());
  const HostTensor after = session.host_params();
  for (const Chunk& c : session.layout().chunks()) {
    INFO(c.name);
    const std::string kind = c.name.substr(c.name.rfind('.') + 1);
    const bool statistic = kind == "running_mean" || kind == "running_var";
    for (int64_t i = 0; i < c.numel; ++i) {
      const double got = static_cast<double>(after.as<float>()[c.offset + i]);
      if (!statistic) CHECK(after.as<float>()[c.offset + i] == was[static_cast<size_t>(c.offset + i)]);
      if (c.name == "bn1.running_mean")
        CHECK(got == Catch::Approx(golden["mean"][static_cast<size_t>(i)].get<double>()).epsilon(2e-6).margin(1e-6));
      if (c.name == "bn1.running_var")
        CHECK(got == Catch::Approx(golden["var"][static_cast<size_t>(i)].get<double>()).epsilon(2e-6));
    }
  }
}
