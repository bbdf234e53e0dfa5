// Relative paths of a configuration file that is used from another folder than the one where they exist.
#include "tools/cli/config_paths.h"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_helper.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
namespace fs = std::filesystem;

namespace {

void write_file(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// Returns the error message for a command line.
std::string missing(std::vector<std::string> words) {
  try {
    cli::require_files_of_config(parse(std::move(words)));
  } catch (const Error& e) {
    CHECK(e.id() == "E_FILE_MISSING");
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a run.json that is used from another folder: the error says where its files are", "[cli]") {
  const TempDir f;
  for (const char* folder : {"started/runs/a", "elsewhere"}) fs::create_directories(f / folder);
  const auto run_json = [&](const nlohmann::json& config, const std::string& started) {
    nlohmann::json sources;
    for (const auto& [name, value] : config.items()) sources[name] = "command line";
    const nlohmann::json run = {{"config", config}, {"sources", sources}, {"machine", {{"started_in", started}}}};
    write_file(f / "elsewhere/run.json", run.dump());
    return f / "elsewhere/run.json";
  };
  write_file(f / "started/rows_of_a_run.csv", "");
  write_file(f / "started/model_of_a_run.onnx", "");
  const nlohmann::json config = {{"model", "model_of_a_run.onnx"}, {"train", "rows_of_a_*.csv"}};
  const std::string file = run_json(config, f / "started");
  const std::string model = missing({"--config", file});
  INFO(model);
  CHECK(mentions(model, {"--model: 'model_of_a_run.onnx' does not exist", "relative path", fs::current_path().string(),
                         "the folder where the run was started", f / "started/model_of_a_run.onnx", "key 'model'"}));
  // A value of the command line replaces the file's.
  const std::string train = missing({f / "started/model_of_a_run.onnx", "--config", file});
  CHECK(mentions(train, {"--train: 'rows_of_a_*.csv'", f / "started/rows_of_a_*.csv"}));
  CHECK(missing({f / "started/model_of_a_run.onnx", "--config", file, "--train", "other.csv"}).empty());
  // Tests a file that is next to the configuration file, and one that does not exist.
  write_file(f / "elsewhere/rows_beside.csv", "");
  const std::string beside = missing({"m.onnx", "--config", run_json({{"train", "rows_beside.csv,nowhere.csv"}}, "")});
  CHECK(mentions(beside, {"the folder of 'run.json'", f / "elsewhere/rows_beside.csv"}));
  const std::string nowhere = missing({"m.onnx", "--config", run_json({{"train", "nowhere/t.csv"}}, "")});
  CHECK(mentions(nowhere, {"'nowhere/t.csv' does not exist", "relative path"}));
  CHECK_FALSE(mentions(nowhere, {"it exists"}));
  // The value of `model` may be the name of an architecture.
  CHECK(missing({"--config", run_json({{"model", "tabular"}}, f / "started"), "--train", "t.csv"}).empty());
  CHECK(missing({"m.onnx", "--config", run_json({{"train", f / "started/none.csv"}}, "")}).empty());  // absolute path
}
