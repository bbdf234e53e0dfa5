// ONNX's backend node tests. Every test whose operators are supported must give the suite's numbers (rtol 1e-3, atol
// 1e-7). Unsupported ones must be refused with exit code 4, and are counted by operator.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "backend/interpreter.h"
#include "base/error.h"
#include "graph/bind.h"
#include "importer/read/import.h"
#include "importer/read/load.h"
#include "importer/read/tensor_file.h"
#include "tests/support.h"
#include "trainer/compile/session.h"

using namespace amp;
namespace fs = std::filesystem;

namespace {

// True for tests of operators that draw random bits, so that no implementation can match the numbers.
bool is_random(const std::string& name) {
  return name.rfind("test_training_dropout", 0) == 0 || name.rfind("test_bernoulli", 0) == 0;
}

// True for tests in which the suite differs from onnxruntime, PyTorch and this program. For align_corners, the suite
// uses the input's length times a fractional scale; the others use the length of the output (docs/operators.md).
bool contradicts_engines(const std::string& name) {
  return name == "test_resize_downsample_scales_linear_align_corners" ||
         name == "test_resize_downsample_scales_cubic_align_corners";
}

// Returns the suite's tolerance, which is larger where the expected zeros are rounding errors of an fp32 FFT of
// values up to 100 (2e-7).
double absolute_tolerance(const std::string& name) { return name.rfind("test_dft_inverse", 0) == 0 ? 1e-6 : 1e-7; }

std::vector<HostTensor> read_tensors(const fs::path& folder, const std::string& stem) {
  std::vector<HostTensor> out;
  for (int i = 0;; ++i) {
    const fs::path p = folder / cat(stem, "_", i, ".pb");
    if (!fs::exists(p)) return out;
    out.push_back(read_tensor_proto(p.string()));
  }
}

// Sequences, optionals and sparse tensors are not supported.
void require_tensors(const std::string& path) {
  const auto model = load_proto(path);
  for (const auto* list : {&model->graph().input(), &model->graph().output()}) {
    for (const auto& v : *list) {
      if (v.type().has_tensor_type()) continue;
      fail(Exit::unsupported, "E_TYPE", cat("'", v.name(), "' is no dense tensor"));
    }
  }
}

// Runs the training form of BatchNormalization. A session would bind the inference form.
std::vector<HostTensor> run_training_form(const std::string& path, const std::vector<HostTensor>& inputs) {
  const Imported model = import_model(path);
  Graph graph;
  Builder b(graph, cpu_evaluator());
  BindOptions o;
  o.outputs = model.graph.outputs;
  o.train = o.batchnorm_train = true;
  std::map<std::string, HostTensor> feeds;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = model.graph.values[static_cast<size_t>(model.graph.inputs[i])].name;
    feeds[name] = inputs[i];
    o.input_dims[name] = inputs[i].dims();
  }
  const Bound bound = bind(model.graph, ParamTable(model.graph), o, b);
  for (const int v : o.outputs) graph.outputs.push_back({cat(v), bound.values[static_cast<size_t>(v)]});
  const Interpreted r = interpret(graph, feeds, {});
  std::vector<HostTensor> out;
  for (const int v : o.outputs) out.push_back(r.outputs.at(cat(v)));
  return out;
}

// Chooses the inputs that become constants: the suite feeds shapes and axes as inputs, which are constants in models.
enum class Bake { none, all_but_data, all };

std::vector<HostTensor> run(Imported model, const std::vector<HostTensor>& inputs, Bake bake) {
  SourceGraph& g = model.graph;
  Tensors batch;
  bool data_seen = false;
  if (g.inputs.size() < inputs.size()) fail(Exit::internal, "E_TEST", "more inputs than the graph has");
  for (size_t i = 0; i < inputs.size(); ++i) {
    SourceValue& v = g.values[static_cast<size_t>(g.inputs[i])];
    const bool data = is_float(inputs[i].dtype()) && !data_seen;
    data_seen = data_seen || data;
    if (bake == Bake::all || (bake == Bake::all_but_data && !data)) {
      v.kind = SourceKind::constant;
      v.data = inputs[i];
    } else {
      batch[v.name] = inputs[i];
    }
  }
  if (bake != Bake::none)
    std::erase_if(g.inputs, [&](int v) { return g.values[static_cast<size_t>(v)].kind == SourceKind::constant; });
  Session session(g, {});
  const Tensors out = session.forward(g.outputs, batch);
  std::vector<HostTensor> tensors;
  for (const int o : g.outputs) tensors.push_back(out.at(g.values[static_cast<size_t>(o)].name));
  return tensors;
}

std::vector<HostTensor> run_any(const std::string& path, const std::vector<HostTensor>& inputs) {
  if (path.find("batchnorm") != std::string::npos && path.find("training_mode") != std::string::npos)
    return run_training_form(path, inputs);
  for (const Bake bake : {Bake::none, Bake::all_but_data}) {
    try {
      return run(import_model(path), inputs, bake);
    } catch (const Error& e) {
      if (e.id() != "E_DYNAMIC") throw;
    }
  }
  return run(import_model(path), inputs, Bake::all);
}

// Returns the first difference, or empty if all are equal.
std::string difference(const HostTensor& have, const HostTensor& want, double atol) {
  if (have.dims() != want.dims()) return cat("shape ", to_string(have.dims()), ", want ", to_string(want.dims()));
  if (is_float(have.dtype()) != is_float(want.dtype()))
    return cat("type ", name_of(have.dtype()), ", want ", name_of(want.dtype()));
  const std::vector<double> a = have.cast(want.dtype()).to_doubles(), b = want.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i] || std::abs(a[i] - b[i]) <= atol + 1e-3 * std::abs(b[i])) continue;
    return cat("[", i, "] is ", a[i], ", want ", b[i]);
  }
  return {};
}

std::string operator_of(const std::string& path, const Error& e) {
  try {
    const Imported m = import_model(path);
    const std::vector<int> unknown = unknown_operators(m.graph, m.graph.outputs);
    const auto& node = m.graph.nodes.at(static_cast<size_t>(unknown.empty() ? 0 : unknown[0]));
    return (unknown.empty() ? "(case) " : "") + node.op;
  } catch (const std::exception&) {
    return "(import) " + e.id();
  }
}

}  // namespace

TEST_CASE("ONNX's node tests", "[node]") {
  const fs::path root = fs::path(test::onnx_test_data()) / "node";
  if (!fs::exists(root)) SKIP("no ONNX test data at " << root);
  std::vector<fs::path> folders;
  for (const auto& d : fs::directory_iterator(root)) folders.push_back(d.path());
  std::sort(folders.begin(), folders.end());
  const char* only = std::getenv("NODE_TEST");
  std::map<std::string, std::vector<std::string>> unsupported;
  std::vector<std::string> failed;
  size_t passed = 0, refused = 0, random = 0, excepted = 0;
  for (const fs::path& f : folders) {
    const std::string name = f.filename().string(), path = (f / "model.onnx").string();
    if (only && name.find(only) == std::string::npos) continue;
    if (is_random(name)) {
      ++random;
      continue;
    }
    std::string wrong;
    try {
      require_tensors(path);
      for (int set = 0; wrong.empty() && fs::exists(f / cat("test_data_set_", set)); ++set) {
        const fs::path data = f / cat("test_data_set_", set);
        const std::vector<HostTensor> want = read_tensors(data, "output"),
                                      have = run_any(path, read_tensors(data, "input"));
        for (size_t i = 0; wrong.empty() && i < want.size(); ++i) {
          const std::string d = difference(have.at(i), want[i], absolute_tolerance(name));
          if (!d.empty()) wrong = cat("output ", i, ": ", d);
        }
      }
      if (contradicts_engines(name)) {
        INFO(name);
        CHECK_FALSE(wrong.empty());  // fails if the exception is obsolete
        ++excepted;
        continue;
      }
      if (wrong.empty()) ++passed;
    } catch (const Error& e) {
      if (e.exit() == Exit::unsupported) {
        ++refused;
        unsupported[operator_of(path, e)].push_back(name.substr(5) + (only ? cat(": ", e.what()) : ""));
      } else {
        wrong = e.what();
      }
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    if (!wrong.empty()) failed.push_back(cat(name, ": ", wrong));
  }
  std::cout << "node tests: " << passed << " passed, " << failed.size() << " failed, " << refused << " unsupported, "
            << random << " random, " << excepted << " that contradict the engines\n";
  for (const auto& [op, names] : unsupported) {
    std::cout << "  unsupported " << op << " (" << names.size() << "):";
    for (size_t i = 0; i < names.size() && i < (only ? 1000 : 4); ++i) std::cout << ' ' << names[i];
    std::cout << (names.size() > 4 && !only ? " ...\n" : "\n");
  }
  for (const std::string& s : failed) std::cout << "  FAILED " << s << '\n';
  CHECK(failed.empty());
  CHECK(passed + failed.size() + refused > 0);
}
