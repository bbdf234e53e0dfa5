// Tests the importer on the 88 models of the zoo (environment ONNX_AMP_ZOO, else ../shared/zoo). Skipped without the
// zoo.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "importer/read/import.h"
#include "importer/write/export.h"
#include "tests/support.h"

using namespace amp;
namespace fs = std::filesystem;

static std::vector<fs::path> entries() {
  const char* env = std::getenv("ONNX_AMP_ZOO");
  const fs::path root = env ? fs::path(env) : fs::path(test::source_root()) / ".." / "shared" / "zoo";
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
    // Some reference values were computed with the merged tensors.
    options.split_merged = ref.value("notes", "").find("merged") == std::string::npos;
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
    const bool untied = std::any_of(ref["tied"].begin(), ref["tied"].end(),
                                    [](const auto& t) { return t["untied"].template get<bool>(); });
    size_t found = 0;
    for (const auto& [name, copies] : groups) found += copies.size();
    CHECK(found == tied + (untied ? 1 : 0));
  }
}

static std::string bytes_of(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("an export without training equals the imported file", "[zoo]") {
  std::vector<fs::path> files;
  for (const fs::path& dir : entries()) files.push_back(dir / "model.onnx");
  const char* wild = std::getenv("ONNX_AMP_WILD");
  const fs::path root = wild ? fs::path(wild) : fs::path(test::source_root()) / ".." / "shared" / "data" / "onnx_wild";
  if (fs::is_directory(root)) {
    for (const auto& e : fs::directory_iterator(root)) {
      if (e.path().extension() == ".onnx") files.push_back(e.path());
    }
  }
  if (files.empty()) SKIP("no zoo");
  const test::TempDir scratch;
  const fs::path& folder = scratch.path;
  for (const fs::path& file : files) {
    INFO(file);
    const fs::path copy = folder / "model.onnx";
    try {
      const Imported m = import_model(file.string());
      // Exports every parameter unchanged: the file must not change.
      std::vector<TrainedTensor> same;
      for (size_t i = 0; i < m.graph.values.size(); ++i) {
        const SourceValue& v = m.graph.values[i];
        if (v.kind == SourceKind::parameter) same.push_back({static_cast<int>(i), v.data.cast(DType::f32)});
      }
      export_model(*m.doc, m.graph, same, {}, copy.string());
      if (fs::exists(folder / "model.onnx.data")) {
        const Imported again = import_model(copy.string());
        REQUIRE(again.graph.values.size() == m.graph.values.size());
        for (size_t i = 0; i < m.graph.values.size(); ++i) {
          const HostTensor &a = m.graph.values[i].data, &b = again.graph.values[i].data;
          REQUIRE(a.bytes() == b.bytes());
          CHECK((!a || std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0));
        }
        fs::remove(folder / "model.onnx.data");
      } else {
        CHECK(bytes_of(copy) == bytes_of(file));
      }
    } catch (const Error& e) {
      FAIL_CHECK(e.what());
    }
  }
}
