// Compares losses, gradients and ten-step trajectories of imported models with PyTorch's. Each model also runs as a
// Program, in the interpreter and under precision plans.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "backend/interpreter.h"
#include "base/error.h"
#include "precision/decide.h"
#include "tests/support.h"
#include "tests/zoo/golden.h"

using namespace amp;
using namespace amp::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kEntries = {"autoencoder_ts11", "bert_cls_eager_ts14", "bert_cls_sdpa_dyn18",
                                           "lenet_relu_dyn18", "minilm_embed_ts14",   "sklearn_mlp_hand15"};

Golden entry(const std::string& name) { return Golden(fs::path(test_data("zoo")) / name); }

std::vector<DType> types_of(const PrecisionPlan& plan) {
  std::vector<DType> out;
  for (const Decision& d : plan.nodes) out.push_back(dtype_of(d.compute));
  return out;
}

// Returns the entries of the shared zoo (environment ONNX_AMP_ZOO, else ../shared/zoo) that the program must be able to
// train.
std::vector<fs::path> shared_entries() {
  const char* env = std::getenv("ONNX_AMP_ZOO");
  const fs::path root = env ? fs::path(env) : fs::path(source_root()) / ".." / "shared" / "zoo";
  std::vector<fs::path> out;
  if (!fs::is_directory(root)) return out;
  for (const auto& e : fs::directory_iterator(root)) {
    const std::string n = e.path().filename().string();
    const auto starts = [&](const char* s) { return n.rfind(s, 0) == 0; };
    const bool wanted = n.find("bert") != std::string::npos || starts("electra") || starts("minilm") ||
                        starts("xlmr") || starts("paddle_ernie") || starts("lenet") || starts("autoencoder") ||
                        starts("sklearn_mlp");
    if (wanted && fs::exists(e.path() / "ref.json")) out.push_back(e.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Checks that the training graph gives the same bits as a Program, whose freed memory is filled with NaN, and in the
// interpreter.
void check_program(const Golden& g, const SessionOptions& options) {
  Session session(g.model.graph, options);
  const std::shared_ptr<const Graph> graph = session.train_graph(g.loss, g.batch);
  std::map<std::string, HostTensor> feeds = g.batch;
  const std::vector<double> seeds = seeds_of(g);
  for (size_t i = 0; i < seeds.size(); ++i) feeds[cat("seed.", i)] = HostTensor::scalar<double>(seeds[i]);
  std::vector<HostTensor> params, grads;
  HostArena arena;
  ParamCache cache;
  RunState state;
  ProgramOptions o;
  o.arena = &arena;
  o.cache = &cache;
  o.state = &state;
  o.poison = true;
  for (size_t s = 0; s < session.table().size(); ++s) {
    params.push_back(session.param(static_cast<int>(s)));
    grads.push_back(HostTensor::zeros(params.back().dtype(), params.back().dims()));
    o.params.push_back({params.back().mutable_data(), params.back().dtype(), params.back().dims()});
    o.grads.push_back({grads.back().mutable_data(), params.back().dtype(), params.back().dims()});
  }
  Program p(graph, o);
  const Interpreted want = interpret(*graph, feeds, params);
  for (int round = 0; round < 2; ++round) {
    for (const auto& [name, t] : feeds) {
      if (p.has_input(name)) p.set_input(name, t);
    }
    p.run();
    for (const auto& [name, t] : want.outputs)
      CHECK(std::memcmp(p.output(name).data, t.data(), static_cast<size_t>(t.bytes())) == 0);
    REQUIRE_FALSE(want.param_grads.empty());
    for (const auto& [slot, t] : want.param_grads) {
      INFO("gradient of slot " << slot);
      CHECK(std::memcmp(grads[static_cast<size_t>(slot)].data(), t.cast(options.float_type).data(),
                        static_cast<size_t>(grads[static_cast<size_t>(slot)].bytes())) == 0);
    }
  }
}

}  // namespace

TEST_CASE("losses are PyTorch's") {
  for (const std::string& name : kEntries) DYNAMIC_SECTION(name) check_loss(entry(name));
}

TEST_CASE("gradients are PyTorch's") {
  for (const std::string& name : kEntries) DYNAMIC_SECTION(name) check_gradients(entry(name));
}

TEST_CASE("ten steps are PyTorch's") {
  for (const std::string& name : kEntries) {
    for (const char* method : {"sgd", "adamw"})
      DYNAMIC_SECTION(name << ' ' << method) check_trajectory(entry(name), method);
  }
}

TEST_CASE("a compiled model computes what its interpreted graph does, in every precision") {
  for (const std::string& name : kEntries) {
    const Golden g = entry(name);
    for (const DType low : {DType::f32, DType::f16, DType::bf16}) {
      DYNAMIC_SECTION(name << ' ' << name_of(low)) {
        SessionOptions o;
        if (low != DType::f32) {
          o.low = low;
          o.compute = types_of(decide(g.model.graph, preset("O1"), low));
        }
        check_program(g, o);
      }
    }
  }
}

TEST_CASE("an all-fp32 plan gives the bits of a run without a plan") {
  for (const std::string& name : kEntries) {
    DYNAMIC_SECTION(name) {
      const Golden g = entry(name);
      SessionOptions planned;
      planned.compute.assign(g.model.graph.nodes.size(), DType::f32);
      Session a(g.model.graph, {}), b(g.model.graph, planned);
      CHECK(run_gradients(a, g) == run_gradients(b, g));
      // The nodes and their order are equal: no additional cast or check, so the plan costs nothing per step.
      CHECK(a.train_graph(g.loss, g.batch)->dump() == b.train_graph(g.loss, g.batch)->dump());
      CHECK(std::memcmp(a.grads(), b.grads(), static_cast<size_t>(a.layout().trained_size()) * 4) == 0);
    }
  }
}

TEST_CASE("mixed precision stays near fp32") {
  for (const std::string& name : kEntries) {
    const Golden g = entry(name);
    for (const DType low : {DType::f16, DType::bf16}) {
      DYNAMIC_SECTION(name << ' ' << name_of(low)) {
        const PrecisionPlan plan = decide(g.model.graph, preset("O1"), low);
        CHECK(plan.any_low());
        SessionOptions o;
        o.low = low;
        o.compute = types_of(plan);
        Session full(g.model.graph, {}), mixed(g.model.graph, o);
        const double eps = low == DType::f16 ? 0x1p-10 : 0x1p-7;
        const double a = run_gradients(full, g), b = run_gradients(mixed, g);
        CHECK(std::abs(a - b) <= 8 * eps * std::max(1.0, std::abs(a)));
        // All gradients are compared as one vector, because 16-bit noise is far below the norm of that vector.
        double error = 0, norm = 0;
        const auto *x = static_cast<const float*>(full.grads()), *y = static_cast<const float*>(mixed.grads());
        for (int64_t i = 0; i < full.layout().trained_size(); ++i) {
          error += std::pow(double{x[i]} - y[i], 2);
          norm += std::pow(double{x[i]}, 2);
        }
        INFO("relative error of the gradient " << std::sqrt(error / norm));
        CHECK(std::sqrt(error / norm) <= 16 * eps);
        CHECK(error > 0);  // not equal, so some nodes ran in 16 bits
      }
    }
  }
}

TEST_CASE("the zoo's entries that this release trains", "[zoo]") {
  const auto all = shared_entries();
  if (all.empty()) SKIP("no zoo: set ONNX_AMP_ZOO, or put it in ../shared/zoo");
  for (const fs::path& dir : all) {
    DYNAMIC_SECTION(dir.filename().string()) {
      const Golden g(dir);
      check_loss(g);
      check_gradients(g);
      for (const char* method : {"sgd", "adamw"}) check_trajectory(g, method);
    }
  }
}
