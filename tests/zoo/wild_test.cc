// Tests ONNX files from public repositories, written by many exporters. A file that onnxruntime can run must give the
// same outputs here (rtol 1e-3, atol 1e-4 of the output's largest element), and every trainable weight must get a
// gradient. The files are not in this repository. The environment variable ONNX_AMP_WILD names their folder (else
// ../shared/data/onnx_wild). The test is skipped without them.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "backend/interpreter.h"
#include "base/error.h"
#include "base/safetensors.h"
#include "graph/probe.h"
#include "importer/read/import.h"
#include "tests/support.h"
#include "trainer/compile/session.h"

using namespace amp;
namespace fs = std::filesystem;

namespace {

// Returns inputs by the formula of tests/data/zoo/make_wild.py.
Tensors feeds_of(const SourceGraph& g) {
  Tensors out;
  for (size_t k = 0; k < g.inputs.size(); ++k) {
    const SourceValue& x = g.values[static_cast<size_t>(g.inputs[k])];
    Dims dims;
    for (const Dim& d : x.dims) dims.push_back(d.value > 0 ? d.value : 2);
    std::vector<double> v;
    for (int64_t i = 0; i < numel(dims); ++i) {
      const double at = static_cast<double>(i);
      v.push_back(is_float(x.dtype) ? std::sin(0.37 * at + static_cast<double>(k)) + 0.1 : static_cast<double>(i % 2));
    }
    out[x.name] = HostTensor::of<double>(dims, v).cast(x.dtype);
  }
  return out;
}

void check_outputs(const std::string& file, const Imported& m, const SafeTensors& golden) {
  const SourceGraph& g = m.graph;
  Session session(g, {});
  const Tensors have = session.forward(g.outputs, feeds_of(g));
  for (const int o : g.outputs) {
    const std::string& name = g.values[static_cast<size_t>(o)].name;
    INFO(file << ", output " << name);
    const HostTensor* want = golden.find(cat(file, "/", name));
    REQUIRE(want);
    CHECK(have.at(name).dims() == golden.find(cat(file, "/", name, "#dims"))->to_ints());
    const double largest = golden.find(cat(file, "/", name, "#largest"))->to_doubles()[0];
    const std::vector<double> a = have.at(name).to_doubles(), b = want->to_doubles();
    const size_t step = std::max<size_t>(1, (a.size() + 199) / 200);
    double worst = 0;
    for (size_t i = 0; i < b.size(); ++i)
      worst = std::max(worst, std::abs(a.at(i * step) - b[i]) - 1e-3 * std::abs(b[i]));
    CHECK(worst <= 1e-4 * largest);
  }
}

size_t check_gradients(const Imported& m) {
  const SourceGraph& g = m.graph;
  const ParamTable table(g);
  BindOptions o;
  o.outputs = g.outputs;
  o.input_dims = probe_dims(g, g.outputs, 2, 3);
  const Probe p = probe(g, table, o, std::vector<bool>(table.size(), true), cpu_evaluator());
  CHECK(p.forward.empty());
  CHECK(p.backward.empty());
  for (size_t slot = 0; slot < table.size(); ++slot) {
    INFO(g.values[static_cast<size_t>(table.source_value[slot])].name);
    CHECK(p.reached[slot]);
  }
  return table.size();
}

}  // namespace

TEST_CASE("files found in public repositories give onnxruntime's outputs and train every weight", "[wild]") {
  const char* given = std::getenv("ONNX_AMP_WILD");
  const fs::path root =
      given ? fs::path(given) : fs::path(test::source_root()) / ".." / "shared" / "data" / "onnx_wild";
  if (!fs::is_directory(root)) SKIP("no folder " << root);
  const SafeTensors golden = read_safetensors(test::test_data("zoo/wild.safetensors"));
  size_t files = 0, weights = 0;
  for (const auto& e : fs::directory_iterator(root)) {
    if (e.path().extension() != ".onnx") continue;
    INFO(e.path());
    const Imported m = import_model(e.path().string());
    check_outputs(e.path().filename().string(), m, golden);
    weights += check_gradients(m);
    ++files;
  }
  std::cout << "wild files: " << files << ", " << weights << " weights reached by a gradient\n";
  CHECK(files >= 1);
}
