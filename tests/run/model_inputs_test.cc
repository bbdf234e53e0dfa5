// Settings and files that take effect when a model is opened: limits, folders of tokenizers, folders of runs, lengths
// of targets.
#include <catch2/catch_all.hpp>
#include <filesystem>

#include "base/limits.h"
#include "run/data/language_data.h"
#include "run/data/model_folders.h"
#include "run/folder/run_files.h"
#include "run/prepare/common.h"
#include "run/spec/spec.h"
#include "tests/importer/models.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using Strings = std::vector<std::string>;
namespace fs = std::filesystem;

TEST_CASE("a model is read under the limits of the settings") {
  const TempDir f;
  const Limits before = limits();
  RunSpec spec;
  spec.model.model = save(f, parse(kMlp));
  spec.device.max_graph_nodes = 5;
  spec.device.max_activation_bytes = 1'000'001;
  spec.device.max_constant_bytes = 1'000'002;
  spec.device.in_memory_max_size = 1'000'003;
  spec.data.images.max_image_pixels = 1'000'004;
  open_model(spec, Job::check, {});
  const Limits set = limits();
  spec.device.max_graph_nodes = 4;
  std::string refused;
  try {
    open_model(spec, Job::check, {});
  } catch (const Error& e) {
    refused = e.id();
  }
  set_limits(before);
  CHECK(set.graph_nodes == 5);
  CHECK(set.activation_bytes == 1'000'001);
  CHECK(set.constant_bytes == 1'000'002);
  CHECK(set.in_memory_bytes == 1'000'003);
  CHECK(set.image_pixels == 1'000'004);
  CHECK(refused == "E_NODES");
}

TEST_CASE("files of a model are searched beside it, and above a folder with the name onnx") {
  const TempDir f;
  fs::create_directories(f / "m/onnx");
  fs::create_directories(f / "m/other");
  write_bytes(f / "m/onnx/model.onnx", "");
  CHECK(folders_of_model(f / "m/onnx/model.onnx") == Strings{f / "m/onnx", f / "m"});
  CHECK(folders_of_model(f / "m/onnx") == Strings{f / "m/onnx", f / "m"});
  CHECK(folders_of_model(f / "m/other/x.onnx") == Strings{f / "m/other"});
  CHECK(folders_of_model(f / "m") == Strings{f / "m"});
  for (const char* other : {"m/onnx/.", "m/onnx/", "m/other/../onnx"}) {
    INFO(other);
    const Strings found = folders_of_model(f / other);
    REQUIRE(found.size() == 2);
  }
  CHECK(folders_of_model(f / "m/onnx/..").size() == 1);
}

TEST_CASE("a folder with a record or with checkpoints is a run's") {
  const TempDir f;
  for (const char* name : {"empty", "record", "checkpoints", "both"}) fs::create_directories(f / name);
  for (const char* name : {"record", "both"}) write_bytes(f / (std::string(name) + "/" + kExportRecord), "");
  for (const char* name : {"checkpoints", "both"}) fs::create_directories(f / (std::string(name) + "/checkpoints"));
  CHECK_FALSE(is_run_folder(f / "empty"));
  CHECK_FALSE(is_run_folder(f / "absent"));
  CHECK_FALSE(is_run_folder(f / ("record/" + std::string(kExportRecord))));
  CHECK(is_run_folder(f / "record"));
  CHECK(is_run_folder(f / "checkpoints"));
  CHECK(is_run_folder(f / "both"));
}

TEST_CASE("targets are as long as inputs unless a length is given") {
  RunSpec spec;
  spec.data.text.max_seq_len = 40;
  CHECK(longest_target(spec.data) == 40);
  spec.data.language.max_target_length = 7;
  CHECK(longest_target(spec.data) == 7);
  spec.data.language.max_target_length = 0;
  CHECK(longest_target(spec.data) == 40);
}
