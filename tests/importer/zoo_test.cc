// The 88 models of the zoo, when they are at hand: environment ONNX_AMP_ZOO, else ../shared/zoo.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "importer/describe.h"
#include "importer/import.h"

using namespace amp;
namespace fs = std::filesystem;

static std::vector<fs::path> entries() {
  const char* env = std::getenv("ONNX_AMP_ZOO");
  const fs::path root = env ? fs::path(env) : fs::path(SOURCE_ROOT) / ".." / "shared" / "zoo";
  std::vector<fs::path> out;
  if (fs::is_directory(root)) {
    for (const auto& e : fs::directory_iterator(root)) {
      if (fs::exists(e.path() / "ref.json")) out.push_back(e.path());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST_CASE("the trainable tensors of every zoo model are the ones PyTorch trained", "[zoo]") {
  const auto all = entries();
  if (all.empty()) SKIP("no zoo");
  for (const fs::path& dir : all) {
    INFO(dir.filename());
    nlohmann::json ref;
    std::ifstream(dir / "ref.json") >> ref;
    std::set<std::string> want, have;
    for (const auto& p : ref["params"]) want.insert(p["onnx"].get<std::string>());
    for (const auto& group : ref["tied"]) {
      for (const auto& name : group["onnx"]) want.insert(name.get<std::string>());
    }
    ImportOptions options;
    for (const auto& name : ref["frozen_onnx"]) {
      options.freeze.push_back(name.get<std::string>());
      want.erase(options.freeze.back());
    }
    Imported m;
    try {
      m = import_model((dir / "model.onnx").string(), options);
    } catch (const Error& e) {
      FAIL_CHECK(e.what());
      continue;
    }
    for (const SourceValue& v : m.graph.values) {
      if (v.kind == SourceKind::parameter && v.trainable) have.insert(v.name);
    }
    for (const std::string& name : want) {
      const int i = m.graph.find(name);
      INFO("missed " << name << ": " << (i < 0 ? "no such value" : m.graph.values[static_cast<size_t>(i)].reason));
      CHECK(have.count(name) == 1);
    }
    for (const std::string& name : have) {
      INFO("wrong " << name << ": " << m.graph.values[static_cast<size_t>(m.graph.find(name))].reason);
      CHECK(want.count(name) == 1);
    }
  }
}

TEST_CASE("ties of the zoo are found", "[zoo]") {
  const auto all = entries();
  if (all.empty()) SKIP("no zoo");
  for (const fs::path& dir : all) {
    INFO(dir.filename());
    nlohmann::json ref;
    std::ifstream(dir / "ref.json") >> ref;
    const SourceGraph g = import_model((dir / "model.onnx").string()).graph;
    std::map<std::string, std::set<std::string>> groups;
    for (const SourceValue& v : g.values) {
      if (v.tied_to >= 0) groups[g.values[static_cast<size_t>(v.tied_to)].name].insert(v.name);
    }
    size_t tied = 0;
    for (const auto& t : ref["tied"]) {
      if (t["untied"].get<bool>()) continue;
      const int first = g.find(t["onnx"][0].get<std::string>());
      REQUIRE(first >= 0);
      for (size_t i = 1; i < t["onnx"].size(); ++i, ++tied) {
        CHECK(groups[t["onnx"][0].get<std::string>()].count(t["onnx"][i].get<std::string>()) == 1);
      }
    }
    const bool untied = std::any_of(ref["tied"].begin(), ref["tied"].end(), [](const auto& t) { return t["untied"].template get<bool>(); });
    size_t found = 0;
    for (const auto& [name, copies] : groups) found += copies.size();
    CHECK(found == tied + (untied ? 1 : 0));
  }
}
