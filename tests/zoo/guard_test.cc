// Tests attention rows whose keys are all masked. Their scores are -inf, and exporters repair the Softmax by
// Where(IsNaN(p), 0, p). Output and gradient must be 0, not NaN, in fp32 and under 16-bit plans, as in PyTorch
// (tests/data/ops/make_corners.py).
#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "precision/decide.h"
#include "tests/graph/source_net.h"
#include "tests/support.h"
#include "trainer/compile/session.h"
#include "trainer/loop/micro_batches.h"

using namespace amp;
using namespace amp::test;

namespace {

HostTensor tensor_of(const nlohmann::json& j) {
  return HostTensor::of<double>(j["dims"].get<Dims>(), j["data"].get<std::vector<double>>()).cast(DType::f32);
}

double worst(const HostTensor& got, const HostTensor& want) {
  const std::vector<double> a = got.to_doubles(), b = want.to_doubles();
  REQUIRE(a.size() == b.size());
  double most = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(a[i]));
    most = std::max(most, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return most / largest;
}

struct Guarded {
  SourceNet net;
  int q, k, v, y;
  explicit Guarded(const nlohmann::json& j) {
    const auto param = [&](const char* name) {
      const HostTensor t = tensor_of(j[name]);
      const int p = net.param(name, t.dims());
      net.g.values[static_cast<size_t>(p)].data = t;
      return p;
    };
    const int mask = net.input("mask");
    q = param("q");
    k = param("k");
    v = param("v");
    const auto scalar = [&](const char* name, float x) { return net.constant(name, HostTensor::scalar<float>(x)); };
    const int keep = net.node("Greater", {mask, scalar("half", 0.5f)});
    const int hidden = scalar("hidden", -std::numeric_limits<float>::infinity()), zero = scalar("zero", 0);
    const int scores = net.node("Where", {keep, net.node("MatMul", {q, k}), hidden});
    const int p = net.node("Softmax", {scores}, {{"axis", int64_t{-1}}});
    y = net.node("MatMul", {net.node("Where", {net.node("IsNaN", {p}), zero, p}), v});
    net.g.outputs = {y};
  }
};

void check_guard(const SessionOptions& options, double tolerance) {
  std::ifstream file(test_data("ops/corners.json"));
  const auto j = nlohmann::json::parse(file)["guard"];
  Guarded m(j);
  Session session(m.net.g, options);
  const LossSpec loss{"mse", {m.net.g.values[static_cast<size_t>(m.y)].name}};
  const Tensors batch{{"mask", tensor_of(j["mask"])}, {"label", tensor_of(j["target"])}};
  const double scale = 1024, items = count_items(loss, batch.at("label"))[0];
  const double sum = run_micro_batch(session, loss, batch, {scale / items}, false)[0];
  CHECK(std::abs(sum / items - j["loss"].get<double>()) <= tolerance * j["loss"].get<double>());
  CHECK(worst(session.forward({m.y}, batch).begin()->second, tensor_of(j["y"])) <= tolerance);
  size_t i = 0;
  for (const int p : {m.q, m.k, m.v}) {
    INFO(m.net.g.values[static_cast<size_t>(p)].name);
    HostTensor g = session.grad(session.table().slot_of[static_cast<size_t>(p)]).cast(DType::f32);
    for (int64_t e = 0; e < g.numel(); ++e) g.as_mutable<float>()[e] /= static_cast<float>(scale);
    CHECK(worst(g, tensor_of(j["grads"][i++])) <= tolerance);
  }
}

}  // namespace

TEST_CASE("the NaN guard of hidden rows passes no NaN to the gradient", "[guard]") {
  SECTION("fp32") { check_guard({}, 1e-6); }
  SECTION("fp64") {
    SessionOptions o;
    o.float_type = DType::f64;
    check_guard(o, 1e-6);
  }
  for (const DType low : {DType::f16, DType::bf16}) {
    std::ifstream file(test_data("ops/corners.json"));
    Guarded m(nlohmann::json::parse(file)["guard"]);
    for (const char* level : {"O1", "O2", "O3", "pytorch"}) {
      DYNAMIC_SECTION(name_of(low) << ' ' << level) {
        SessionOptions o;
        o.low = low;
        for (const Decision& d : decide(m.net.g, preset(level), low).nodes) o.compute.push_back(dtype_of(d.compute));
        REQUIRE(std::count(o.compute.begin(), o.compute.end(), low) > 0);
        check_guard(o, low == DType::f16 ? 4e-3 : 3e-2);
      }
    }
    DYNAMIC_SECTION(name_of(low) << " everywhere") {
      SessionOptions o;
      o.low = low;
      o.compute.assign(m.net.g.nodes.size(), low);
      check_guard(o, low == DType::f16 ? 4e-3 : 3e-2);
    }
  }
}
