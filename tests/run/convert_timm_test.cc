// Tests the conversion of checkpoints in timm's form.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "run/model/build.h"
#include "tests/support.h"

namespace amp {
namespace {

using test::TempDir;

TEST_CASE("timm's config.json goes with its model, because it has the preprocessing") {
  const TempDir f;
  const auto json_in = [](const std::string& path) { return nlohmann::json::parse(read_file(path).text()); };
  create_model({.model = "convnext_tiny", .config = R"({"dims": [4, 8, 8, 12], "depths": [1, 1, 1, 1]})"},
               f / "m.onnx");
  write_checkpoint(f / "m.onnx", f / "timm");
  nlohmann::json config = json_in(f / "timm/config.json");
  config["pretrained_cfg"] = {{"mean", {0.5, 0.5, 0.5}}, {"std", {0.5, 0.5, 0.5}}, {"input_size", {3, 224, 224}}};
  std::ofstream(f / "timm/config.json") << config.dump();
  std::filesystem::create_directory(f / "onnx");
  convert_checkpoint({.model = f / "timm"}, f / "onnx/model.onnx");
  CHECK(json_in(f / "onnx/config.json") == config);
  // Files converted from transformers' checkpoints need no config.json beside them, because it is in their metadata.
  std::filesystem::create_directory(f / "bert");
  convert_checkpoint({.model = test::test_data("models/bert_classifier")}, f / "bert/model.onnx");
  CHECK_FALSE(std::filesystem::exists(f / "bert/config.json"));
}

}  // namespace
}  // namespace amp
