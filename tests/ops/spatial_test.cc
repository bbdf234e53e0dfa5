// Conv, ConvTranspose, pools, BatchNormalization and InstanceNormalization against PyTorch
// (tests/data/ops/make_spatial.py) and finite differences, in every storage type and with several numbers of threads.
#include <catch2/catch_all.hpp>
#include <nlohmann/json.hpp>

#include "backend/parallel.h"
#include "base/safetensors.h"
#include "tests/ops/one_node.h"
#include "tests/support.h"

using namespace amp;

namespace {

struct Case {
  std::string name;
  OneNode node;
  std::vector<size_t> wrt;
  HostTensor dy;
  std::vector<HostTensor> outputs;
  std::map<size_t, HostTensor> grads;
};

Attrs attrs_of(const nlohmann::json& j) {
  Attrs a;
  for (const auto& [key, v] : j.items()) {
    if (v.is_array())
      a.set(key, v.get<std::vector<int64_t>>());
    else if (v.is_string())
      a.set(key, v.get<std::string>());
    else if (v.is_number_float())
      a.set(key, v.get<double>());
    else
      a.set(key, v.get<int64_t>());
  }
  return a;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    const SafeTensors file = read_safetensors(test::test_data("ops/spatial.safetensors"));
    std::vector<Case> out;
    for (const auto& j : nlohmann::json::parse(file.metadata.at("cases"))) {
      Case c;
      c.name = j["name"];
      c.node.op = j["op"];
      c.node.version = j["version"];
      c.node.attrs = attrs_of(j["attrs"]);
      c.node.n_outputs = j["outputs"];
      c.node.batchnorm_train = j["train"];
      const auto get = [&](const std::string& t) { return *file.find(c.name + "/" + t); };
      for (int i = 0; i < j["inputs"].get<int>(); ++i) c.node.inputs.push_back(get("in" + std::to_string(i)));
      for (size_t i = 0; i < c.node.n_outputs; ++i) c.outputs.push_back(get("out" + std::to_string(i)));
      c.dy = get("dy");
      for (const size_t i : j["grads"].get<std::vector<size_t>>()) {
        c.wrt.push_back(i);
        c.grads[i] = get("grad" + std::to_string(i));
      }
      out.push_back(std::move(c));
    }
    return out;
  }();
  return all;
}

void compare(const Case& c, const NodeRun& r, double tolerance) {
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    INFO("output " << i);
    CHECK(distance(r.outputs[i], c.outputs[i]) < tolerance);
  }
  for (const auto& [i, want] : c.grads) {
    INFO("gradient of input " << i);
    CHECK(distance(r.grads.at(i), want) < tolerance);
  }
}

void same(const NodeRun& a, const NodeRun& b) {
  for (size_t i = 0; i < a.outputs.size(); ++i) CHECK(same_bits(a.outputs[i], b.outputs[i]));
  for (const auto& [i, g] : a.grads) CHECK(same_bits(g, b.grads.at(i)));
}

}  // namespace

TEST_CASE("spatial operators equal PyTorch in fp64 and fp32") {
  REQUIRE(cases().size() > 50);
  for (const Case& c : cases()) {
    DYNAMIC_SECTION(c.name) {
      compare(c, run_node(c.node, c.dy, c.wrt, DType::f64), 1e-12);
      compare(c, run_node(c.node, c.dy, c.wrt, DType::f32), 3e-5);
    }
  }
}

// fp32 arithmetic on 16-bit storage: representable inputs are exact, so only the results are rounded.
TEST_CASE("spatial operators compute in fp32 on 16-bit storage") {
  for (const DType storage : {DType::f16, DType::bf16}) {
    const double eps = storage == DType::f16 ? 0x1p-10 : 0x1p-7;
    for (const Case& c : cases()) {
      if (c.node.op == "MaxPool" && c.outputs.size() > 1) continue;  // rounding inputs to 16 bits makes ties
      DYNAMIC_SECTION(name_of(storage) << " " << c.name) {
        OneNode rounded = c.node;
        for (HostTensor& t : rounded.inputs) t = t.cast(storage).cast(DType::f64);
        const HostTensor dy = c.dy.cast(storage).cast(DType::f64);
        const NodeRun want = run_node(rounded, dy, c.wrt, DType::f64);
        const NodeRun got = run_node(rounded, dy, c.wrt, DType::f32, storage);
        // Decomposed operators also round between their nodes.
        const bool one_node = c.node.op == "Conv" || c.node.op == "AveragePool" || c.node.op == "MaxPool";
        const double tolerance = one_node ? eps : 16 * eps;
        CHECK(got.outputs[0].dtype() == storage);
        CHECK(distance(got.outputs[0], want.outputs[0]) < tolerance);
        for (const auto& [i, g] : want.grads) {
          INFO("gradient of input " << i);
          // Input 2, the bias, is summed axis by axis.
          CHECK(distance(got.grads.at(i), g) < (i == 2 ? 4 * tolerance : tolerance));
        }
      }
    }
  }
}

TEST_CASE("spatial operators give the same bits for any number of threads") {
  for (const Case& c : cases()) {
    DYNAMIC_SECTION(c.name) {
      const NodeRun one = [&] {
        const WithThreads t(1);
        return run_node(c.node, c.dy, c.wrt, DType::f32);
      }();
      for (const int n : {2, 5}) {
        const WithThreads t(n);
        same(run_node(c.node, c.dy, c.wrt, DType::f32), one);
      }
    }
  }
}

TEST_CASE("gradients of spatial operators are those of finite differences") {
  for (const Case& c : cases()) {
    DYNAMIC_SECTION(c.name) {
      const HostTensor dy = random_tensor(c.outputs[0].dims(), 11);
      const NodeRun r = run_node(c.node, dy, c.wrt, DType::f64);
      const std::vector<double> up = dy.to_doubles();
      for (const size_t i : c.wrt) {
        // Compares the derivative along a random direction, and along single elements.
        const HostTensor& x = c.node.inputs[i];
        const std::vector<double> at = x.to_doubles(), g = r.grads.at(i).to_doubles();
        for (uint64_t trial = 0; trial < 6; ++trial) {
          std::vector<double> direction = random_tensor(x.dims(), 100 + trial).to_doubles();
          if (trial > 1) {
            std::fill(direction.begin(), direction.end(), 0.0);
            direction[(trial * 7919) % direction.size()] = 1;
          }
          const double h = 1e-6;
          double slope = 0, want = 0;
          for (const double sign : {1.0, -1.0}) {
            std::vector<double> moved = at;
            for (size_t k = 0; k < moved.size(); ++k) moved[k] += sign * h * direction[k];
            OneNode n = c.node;
            n.inputs[i] = HostTensor::of(x.dims(), moved);
            n.n_outputs = 1;
            const std::vector<double> y = run_node(n, {}, {}, DType::f64).outputs[0].to_doubles();
            for (size_t k = 0; k < y.size(); ++k) slope += sign * up[k] * y[k] / (2 * h);
          }
          for (size_t k = 0; k < g.size(); ++k) want += g[k] * direction[k];
          INFO("input " << i << " trial " << trial);
          CHECK(want == Catch::Approx(slope).epsilon(1e-6).margin(1e-6));
        }
      }
    }
  }
}
