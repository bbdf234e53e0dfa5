// Tests fused operators of com.microsoft in optimized files: outputs equal onnxruntime's, every weight is trained, and
// gradients agree with finite differences in fp64.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <filesystem>

#include "backend/interpreter.h"
#include "base/safetensors.h"
#include "graph/autodiff.h"
#include "graph/bind.h"
#include "graph/passes.h"
#include "models.h"

using namespace amp;
using namespace amp::test;

namespace {

using Feeds = std::map<std::string, HostTensor>;

struct Case {
  Imported model;
  Feeds feeds, want;
};

Case read_case(const std::filesystem::path& model) {
  Case c{import_model(model.string()), {}, {}};
  std::filesystem::path data = model;
  for (const NamedTensor& t : read_safetensors(data.replace_extension(".safetensors").string()).tensors) {
    if (t.name.rfind("out/", 0) == 0)
      c.want[t.name.substr(4)] = t.tensor;
    else
      c.feeds[t.name] = t.tensor;
  }
  return c;
}

std::vector<HostTensor> parameters(const SourceGraph& g, DType type) {
  std::vector<HostTensor> out;
  for (const int v : ParamTable(g).source_value) out.push_back(g.values[static_cast<size_t>(v)].data.cast(type));
  return out;
}

Feeds cast_feeds(const Feeds& feeds, DType type) {
  Feeds out = feeds;
  for (auto& [name, t] : out) {
    if (is_float(t.dtype())) t = t.cast(type);
  }
  return out;
}

// A model bound with its outputs. If `gradients`, it also has the gradients of sum_k c_k y_k, where y is the first
// output and c_k = sin k.
struct Bound64 {
  Bound64(const Case& c, DType type, bool gradients) {
    const SourceGraph& g = c.model.graph;
    Builder b(graph, cpu_evaluator());
    BindOptions o;
    o.float_type = type;
    o.outputs = g.outputs;
    for (const auto& [name, t] : c.feeds) o.input_dims[name] = t.dims();
    const Bound bound = bind(g, ParamTable(g), o, b);
    for (const int v : g.outputs)
      graph.outputs.push_back({g.values[static_cast<size_t>(v)].name, bound.values[static_cast<size_t>(v)]});
    if (gradients) differentiate(b, type);
    graph = prune(graph);
  }
  void differentiate(Builder& b, DType type) {
    std::vector<ValueId> wrt;
    for (int32_t i = 0; i < graph.n_values(); ++i) {
      if (graph.value(ValueId{i}).kind == ValueKind::param) wrt.push_back(ValueId{i});
    }
    Autodiff ad(b, wrt);
    const ValueId y = graph.outputs[0].value;
    ad.seed(y, b.constant(HostTensor::of(b.dims(y), weights(numel(b.dims(y)))).cast(type)));
    ad.run();
    for (const ValueId w : wrt) {
      if (const ValueId d = ad.grad(w)) graph.param_grads.push_back({graph.value(w).slot, d});
    }
  }
  static std::vector<double> weights(int64_t n) {
    std::vector<double> w;
    for (int64_t k = 0; k < n; ++k) w.push_back(std::sin(static_cast<double>(k + 1)));
    return w;
  }
  Graph graph;
};

double loss(const Graph& g, const Feeds& feeds, const std::vector<HostTensor>& params) {
  const HostTensor y = interpret(g, feeds, params).outputs.at(g.outputs[0].name);
  const std::vector<double> v = y.to_doubles(), w = Bound64::weights(y.numel());
  double sum = 0;
  for (size_t k = 0; k < v.size(); ++k) sum += v[k] * w[k];
  return sum;
}

void check_gradients(const Case& c) {
  const SourceGraph& g = c.model.graph;
  const ParamTable table(g);
  const Feeds feeds = cast_feeds(c.feeds, DType::f64);
  const std::vector<HostTensor> params = parameters(g, DType::f64);
  const Bound64 bound(c, DType::f64, true);
  const Interpreted r = interpret(bound.graph, feeds, params);
  Graph forward = bound.graph;
  forward.param_grads.clear();
  for (size_t slot = 0; slot < params.size(); ++slot) {
    INFO("gradient of '" << g.values[static_cast<size_t>(table.source_value[slot])].name << "'");
    REQUIRE(r.param_grads.count(static_cast<int>(slot)) == 1);
    const std::vector<double> have = r.param_grads.at(static_cast<int>(slot)).to_doubles();
    double largest = 0;
    for (const double d : have) largest = std::max(largest, std::abs(d));
    const size_t step = std::max<size_t>(1, have.size() / 12);
    for (size_t k = 0; k < have.size(); k += step) {
      double slope = 0;
      for (const auto& [at, weight] : {std::pair{1, 8.0}, {-1, -8.0}, {2, -1.0}, {-2, 1.0}}) {
        std::vector<HostTensor> moved = params;
        std::vector<double> values = params[slot].to_doubles();
        values[k] += at * 0x1p-12;
        moved[slot] = HostTensor::of(params[slot].dims(), values);
        slope += weight * loss(forward, feeds, moved);
      }
      slope /= 12 * 0x1p-12;
      CHECK(std::abs(slope - have[k]) <= 1e-6 * std::max(largest, 1e-3));
    }
  }
}

}  // namespace

namespace {
void check_outputs(const Case& c) {
  const Interpreted r = interpret(Bound64(c, DType::f32, false).graph, c.feeds, parameters(c.model.graph, DType::f32));
  REQUIRE(!c.want.empty());
  for (const auto& [name, want] : c.want) {
    INFO("output '" << name << "'");
    const std::vector<double> a = r.outputs.at(name).to_doubles(), b = want.to_doubles();
    REQUIRE(r.outputs.at(name).dims() == want.dims());
    double largest = 0, worst = 0;
    for (size_t k = 0; k < b.size(); ++k) {
      largest = std::max(largest, std::abs(b[k]));
      worst = std::max(worst, std::abs(a[k] - b[k]));
    }
    CHECK(worst <= 5e-6 * largest);
  }
}
}  // namespace

TEST_CASE("com.microsoft operators give onnxruntime's outputs and train every weight", "[contrib]") {
  size_t cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kData + "contrib")) {
    if (entry.path().extension() != ".onnx") continue;
    ++cases;
    DYNAMIC_SECTION(entry.path().stem().string()) {
      const Case c = read_case(entry.path());
      const SourceGraph& g = c.model.graph;
      const bool whole_model = entry.path().stem().string().rfind("bert", 0) == 0;
      for (const SourceValue& v : g.values) {
        if (whole_model || v.kind == SourceKind::temp || v.kind == SourceKind::input) continue;
        INFO(v.name << ": " << v.reason);
        CHECK(v.trainable);
      }
      check_outputs(c);
      if (!whole_model) check_gradients(c);
    }
  }
  CHECK(cases >= 30);
}

TEST_CASE("sequences, regions, decoder attention and quantized weights give onnxruntime's outputs and train",
          "[contrib]") {
  size_t cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kData + "contrib_more")) {
    if (entry.path().extension() != ".onnx") continue;
    ++cases;
    const std::string name = entry.path().stem().string();
    DYNAMIC_SECTION(name) {
      Case c = read_case(entry.path());
      const auto count = static_cast<size_t>(c.feeds.at("parameters").to_ints().at(0));
      c.feeds.erase("parameters");
      check_outputs(c);
      const ParamTable table(c.model.graph);
      CHECK(table.size() == count);
      if (name.rfind("q_", 0) != 0) {
        check_gradients(c);
      } else {  // the operators of the other cases round, so gradients must only be finite and not zero
        const Bound64 bound(c, DType::f64, true);
        const Interpreted r =
            interpret(bound.graph, cast_feeds(c.feeds, DType::f64), parameters(c.model.graph, DType::f64));
        CHECK(r.param_grads.size() == count);
        for (const auto& [slot, grad] : r.param_grads) {
          const std::vector<double> g = grad.to_doubles();
          CHECK(std::any_of(g.begin(), g.end(), [](double v) { return v != 0 && std::isfinite(v); }));
        }
      }
    }
  }
  CHECK(cases >= 35);
}

// The distance of equal rows is 0. Its derivative does not exist there; 0 keeps training finite, as in PyTorch's cdist.
TEST_CASE("gradients through the distance of equal rows are 0", "[contrib]") {
  const TempDir f;
  Case c{import_text(f, R"(
    <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[1,2] x) => (float[1,2] y)
    <float[2,2] w = {1, 0.5, -0.5, 2}, float[2,2] rows = {1.5, 3, 1.5, 4}> {
      h = MatMul (x, w)
      y = com.microsoft.CDist <metric = "euclidean"> (h, rows)
    })"),
         {},
         {}};
  c.feeds["x"] = HostTensor::of<float>({1, 2}, {2, 1});
  const Bound64 bound(c, DType::f64, true);
  const Interpreted r = interpret(bound.graph, cast_feeds(c.feeds, DType::f64), parameters(c.model.graph, DType::f64));
  CHECK(r.outputs.at("y").to_doubles() == std::vector<double>{0, 1});
  // dy = sin(1), sin(2); the second distance has the derivative (0, -1) with respect to h = x.
  const std::vector<double> d = r.param_grads.at(0).to_doubles();
  CHECK((d[0] == 0 && d[2] == 0));
  CHECK(d[1] == Catch::Approx(-2 * std::sin(2)));
  CHECK(d[3] == Catch::Approx(-1 * std::sin(2)));
}

// Scale, Round and Clip are separate nodes. Outputs and gradients must be PyTorch's
// (tests/data/importer/make_quantizers.py).
TEST_CASE("quantizers spelled out train straight through", "[contrib]") {
  size_t cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kData + "quantizers")) {
    if (entry.path().extension() != ".onnx") continue;
    ++cases;
    DYNAMIC_SECTION(entry.path().stem().string()) {
      Case c = read_case(entry.path());
      Feeds grads;
      for (auto it = c.feeds.begin(); it != c.feeds.end();) {
        if (it->first.rfind("grad/", 0) == 0) {
          grads[it->first.substr(5)] = it->second;
          it = c.feeds.erase(it);
        } else {
          ++it;
        }
      }
      const SourceGraph& g = c.model.graph;
      const ParamTable table(g);
      CHECK(table.size() == grads.size());
      const Interpreted r = interpret(Bound64(c, DType::f64, true).graph, c.feeds, parameters(g, DType::f64));
      const auto near = [](const HostTensor& have, const HostTensor& want) {
        REQUIRE(have.dims() == want.dims());
        const std::vector<double> a = have.to_doubles(), b = want.to_doubles();
        for (size_t k = 0; k < a.size(); ++k) CHECK(std::abs(a[k] - b[k]) <= 1e-6);
      };
      near(r.outputs.at("y"), c.want.at("y"));
      for (const auto& [name, want] : grads) {
        INFO("gradient of '" << name << "'");
        const int slot = table.slot_of[static_cast<size_t>(g.find(name))];
        REQUIRE(slot >= 0);
        near(r.param_grads.at(slot), want);
      }
    }
  }
  CHECK(cases == 5);
}
