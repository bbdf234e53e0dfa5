// Gradients at corner cases against PyTorch (tests/data/ops/make_corners.py).
#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/ops/one_node.h"
#include "tests/support.h"

using namespace amp;

namespace {

HostTensor tensor_of(const nlohmann::json& j) {
  std::vector<double> v;
  for (const auto& x : j["data"]) v.push_back(x.is_string() ? std::stod(x.get<std::string>()) : x.get<double>());
  return HostTensor::of<double>(j["dims"].get<Dims>(), v);
}

Attrs attrs_of(const nlohmann::json& j) {
  Attrs a;
  for (const auto& [key, v] : j.items()) {
    if (v.is_array()) {
      a.set(key, v.get<std::vector<int64_t>>());
    } else {
      a.set(key, v.get<int64_t>());
    }
  }
  return a;
}

}  // namespace

TEST_CASE("gradients in corners are PyTorch's", "[corners]") {
  std::ifstream file(test::test_data("ops/corners.json"));
  const auto cases = nlohmann::json::parse(file)["cases"];
  REQUIRE(cases.size() > 20);
  for (const auto& j : cases) {
    OneNode n;
    n.op = j["op"];
    n.version = j["version"];
    n.attrs = attrs_of(j["attrs"]);
    std::vector<size_t> wrt;
    for (const auto& x : j["in"]) {
      wrt.push_back(n.inputs.size());
      n.inputs.push_back(tensor_of(x));
    }
    for (const DType type : {DType::f64, DType::f32}) {
      INFO(j["name"].get<std::string>() << " in " << name_of(type));
      // If scale and bias are empty, only the gradient of input 0 is requested.
      const bool nothing = n.op == "LayerNormalization" && n.inputs[1].numel() == 0;
      const NodeRun run = run_node(n, tensor_of(j["dy"]), nothing ? std::vector<size_t>{0} : wrt, type);
      const double tolerance = type == DType::f64 ? 1e-12 : 1e-6;
      CHECK(distance(run.outputs[0], tensor_of(j["out"])) < tolerance);
      for (const auto& [i, grad] : run.grads) {
        INFO("gradient of input " << i);
        CHECK(distance(grad, tensor_of(j["grads"][i])) < tolerance);
      }
    }
  }
}
