// Compares the gradient penalty on imported models with torch.autograd.grad(create_graph=True) in float64
// (tests/data/zoo/make_gradient_penalty.py).
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/safetensors.h"
#include "precision/decide.h"
#include "tests/support.h"
#include "tests/zoo/second_order.h"
#include "trainer/loop/micro_batches.h"

using namespace amp;
using namespace amp::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

struct Penalized {
  explicit Penalized(const fs::path& dir)
      : golden(dir), file(read_safetensors((dir / "gradient_penalty.safetensors").string())) {
    run = json::parse(file.metadata.at("run"));
    LossSpec penalty{"gradient_penalty", golden.loss.outputs};
    penalty.weight = run.at("weight");
    penalty.input = run.at("value");
    penalty.set("target", {run.at("target").get<double>()});
    losses.parts = {golden.loss, penalty};
  }

  SessionOptions options(DType type) const {
    SessionOptions o;
    o.batchnorm_train = golden.batch_statistics;
    o.float_type = type;
    return o;
  }
  // Returns the total loss, including the penalty, as the only element. The gradients stay in the session.
  std::vector<double> gradients(Session& session, const std::vector<Tensors>& window, double scale = 1) const {
    LossAccumulator counted(losses);
    for (const Tensors& b : window) counted.count(b);
    session.stage_statistics();
    counted.add(run_micro_batches(session, losses, window, counted.seeds(scale)));
    return {counted.loss()};
  }
  HostTensor gradient(const Session& session, const std::string& name) const {
    const int v = golden.model.graph.find(name);
    REQUIRE(v >= 0);
    return session.grad(session.table().slot_of[static_cast<size_t>(v)]);
  }
  // Returns the largest difference between gradients / scale and the float64 gradients, relative to the largest
  // element.
  double error(const Session& session, double scale = 1) const {
    double worst = 0;
    for (const NamedTensor& t : file.tensors) {
      const std::vector<double> want = t.tensor.to_doubles(), have = gradient(session, t.name).to_doubles();
      const size_t stride = (have.size() + 127) / 128;
      REQUIRE(want.size() == (have.size() + stride - 1) / stride);
      for (size_t i = 0; i < want.size(); ++i) {
        const double d = std::abs(have[i * stride] / scale - want[i]);
        worst = std::max(worst, std::isnan(d) ? INFINITY : d);
      }
    }
    return worst / run.at("largest").get<double>();
  }

  Golden golden;
  SafeTensors file;
  json run;
  Losses losses;
};

std::vector<fs::path> entries() {
  std::vector<fs::path> out;
  for (const auto& e : fs::directory_iterator(test_data("zoo"))) {
    if (fs::exists(e.path() / "gradient_penalty.safetensors")) out.push_back(e.path());
  }
  return out;
}

}  // namespace

// The golden gradients are rounded to fp32, 6e-8 of each element. The tolerance for fp32 gradients and losses is 1e-6
// plus three times the difference of torch's fp32 gradients from float64.
TEST_CASE("gradients through a gradient penalty are PyTorch's", "[hessian]") {
  REQUIRE(entries().size() == 8);
  for (const fs::path& dir : entries()) {
    const Penalized p(dir);
    DYNAMIC_SECTION(p.golden.name) {
      Session wide(p.golden.model.graph, p.options(DType::f64)), narrow(p.golden.model.graph, p.options(DType::f32));
      const double total = p.run.at("total"), noise = p.run.at("noise");
      CHECK(p.gradients(wide, {p.golden.batch})[0] == Catch::Approx(total).epsilon(5e-8));
      CHECK(p.error(wide) <= 1e-7);
      CHECK(p.gradients(narrow, {p.golden.batch})[0] == Catch::Approx(total).epsilon(1e-6 + 3 * noise));
      std::cout << p.golden.name << ": fp64 " << p.error(wide) << ", fp32 " << p.error(narrow) << ", torch " << noise
                << '\n';
      CHECK(p.error(narrow) <= 3 * noise + 1e-6);
    }
  }
}

TEST_CASE("the loss scale enters a gradient penalty once, and micro-batches add up", "[hessian]") {
  const Penalized p(test_data("zoo") + "/lenet_relu_dyn18");
  Session one(p.golden.model.graph, p.options(DType::f32)), scaled(p.golden.model.graph, p.options(DType::f32)),
      split(p.golden.model.graph, p.options(DType::f32));
  p.gradients(one, {p.golden.batch});
  p.gradients(scaled, {p.golden.batch}, 1024);
  CHECK(p.gradients(split, {rows_of(p.golden.batch, 0, 2), rows_of(p.golden.batch, 2, 2)})[0] ==
        Catch::Approx(p.run.at("total").get<double>()).epsilon(1e-5));
  CHECK(p.error(split) <= 3 * p.run.at("noise").get<double>() + 1e-6);
  for (const NamedTensor& t : p.file.tensors) {
    const std::vector<double> plain = p.gradient(one, t.name).to_doubles(),
                              larger = p.gradient(scaled, t.name).to_doubles();
    for (size_t i = 0; i < plain.size(); ++i) CHECK(larger[i] == 1024 * plain[i]);  // exact: a power of two
  }
}

// fp16 has 11 bits: two passes through about ten products differ by a few 2^-11 of the largest element.
TEST_CASE("a gradient penalty follows the precision plan", "[hessian]") {
  for (const char* const entry : {"lenet_relu_dyn18", "autoencoder_ts11", "bert_cls_sdpa_dyn18"}) {
    const Penalized p(fs::path(test_data("zoo")) / entry);
    for (const DType low : {DType::f16, DType::bf16}) {
      INFO(entry << ' ' << name_of(low));
      SessionOptions o = p.options(DType::f32);
      o.low = low;
      for (const Decision& d : decide(p.golden.model.graph, preset("pytorch"), low).nodes)
        o.compute.push_back(dtype_of(d.compute));
      Session session(p.golden.model.graph, o);
      p.gradients(session, {p.golden.batch}, 256);
      const double worst = p.error(session, 256);
      std::cout << entry << ' ' << name_of(low) << ": " << worst << '\n';
      CHECK(worst <= (low == DType::f16 ? 2e-3 : 3e-2));
      CHECK(worst > 0);
    }
  }
}

TEST_CASE("a gradient penalty is evaluated without training", "[hessian]") {
  const Penalized p(test_data("zoo") + "/unet_convt_ce_dyn18");
  Session session(p.golden.model.graph, p.options(DType::f64));
  const std::vector<double> sums = session.eval_micro_batch(p.losses, p.golden.batch);
  const double rows = static_cast<double>(p.golden.batch.at("input").dims()[0]);
  CHECK(sums.back() / rows == Catch::Approx(p.run.at("penalty").get<double>()).epsilon(1e-10));
}

TEST_CASE("a gradient penalty of what the output does not depend on is refused", "[hessian]") {
  Penalized p(test_data("zoo") + "/lenet_relu_dyn18");
  Session session(p.golden.model.graph, p.options(DType::f32));
  // Penalizes the gradient with respect to the output itself. Its elements are 1 and its norm is sqrt(classes), for all
  // values of the parameters.
  p.losses.parts[1].input = p.golden.loss.outputs[0];
  CHECK_NOTHROW(session.eval_micro_batch(p.losses, p.golden.batch));
  p.losses.parts[1].input = "none";
  try {
    session.eval_micro_batch(p.losses, p.golden.batch);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::usage);
  }
}
