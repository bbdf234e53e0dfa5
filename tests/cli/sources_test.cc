// Configuration file, environment, precedence, and the printed configuration.
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_helper.h"
#include "tools/cli/config.h"

using namespace amp;
using namespace amp::cli;
using Strings = std::vector<std::string>;

namespace {

// A temporary file that is removed at the end of its scope.
struct TempFile {
  explicit TempFile(const std::string& text) : path(pick()) { std::ofstream(path, std::ios::binary) << text; }
  ~TempFile() { std::filesystem::remove(path); }
  TempFile(const TempFile&) = delete;
  static std::string pick() {
    std::string name = (std::filesystem::temp_directory_path() / "amp_cli_XXXXXX").string();
    const int fd = mkstemp(name.data());
    REQUIRE(fd >= 0);
    std::fclose(fdopen(fd, "w"));
    return name;
  }
  std::string path;
};

std::string config_refusal(const std::string& text) {
  const TempFile file(text);
  return train_refusal({"--config", file.path});
}

}  // namespace

TEST_CASE("a configuration file takes the same keys, any spelling", "[cli]") {
  const TempFile file(R"({
    // comments are welcome
    "learning_rate": 1e-4, "use-fp16": true, "freeze": ["a*", "b"], "text_columns": "t", "epochs": 2,
    "loss_scale": 1024, "no_cuda": true, "val": null, "max_loss_scale": "inf", "batch_size": 4.0})");
  const Options o = train({"--config", file.path});
  CHECK(o.num("lr") == 1e-4);
  CHECK(o.source("lr") == Source::config);
  CHECK(mentions(o.origin("lr"), {file.path, "learning_rate"}));
  CHECK(o.flag("use_fp16"));
  CHECK(o.list("freeze") == Strings{"a*", "b"});
  CHECK(o.list("text_columns") == Strings{"t"});
  CHECK(o.num("epochs") == 2);
  CHECK(o.str("loss_scale") == "1024");
  CHECK(o.str("device") == "cpu");
  CHECK_FALSE(o.has("val"));
  CHECK(o.integer("batch_size") == 4);
}

TEST_CASE("groups of parameters and arguments by name stand in a configuration as text or objects", "[cli]") {
  const TempFile file(R"({"param_group": ["*.bias: weight_decay=0", {"params": "a.*", "lr": 1e-5}],
    "optim_args": {"amsgrad": true}, "lr_scheduler_kwargs": {"num_cycles": 2}})");
  const Options o = train({"--config", file.path});
  CHECK(o.list("param_group") == Strings{"*.bias: weight_decay=0", R"({"params":"a.*","lr":1e-05})"});
  CHECK(o.str("optim_args") == R"({"amsgrad":true})");
  CHECK(o.str("lr_scheduler_kwargs") == R"({"num_cycles":2})");
}

TEST_CASE("losses stand in a configuration as text, objects, or arrays of both", "[cli]") {
  const auto losses = [](const std::string& value) {
    const TempFile file(R"({"loss": )" + value + "}");
    return train({"--config", file.path}).list("loss");
  };
  CHECK(losses(R"("huber,delta=2")") == Strings{"huber,delta=2"});
  CHECK(losses(R"({"kind": "mse", "weight": 0.5})") == Strings{R"({"kind":"mse","weight":0.5})"});
  CHECK(losses(R"(["l1", {"kind": "mse"}])") == Strings{"l1", R"({"kind":"mse"})"});
  CHECK(train({"--loss", R"([{"kind":"mse"}])", "--loss", "l1,weight=2"}).list("loss") ==
        Strings{R"([{"kind":"mse"}])", "l1,weight=2"});
  CHECK(train({}, {R"(ONNX_AMP_LOSS=[{"kind":"mse"}])"}).list("loss") == Strings{R"({"kind":"mse"})"});
}

TEST_CASE("one .json word stands for all flags", "[cli]") {
  const std::string plain = R"({"model": "m.onnx", "train": "t.csv", "lr": 0.5})";
  const TempFile file(plain);
  const std::string json = file.path + ".json";
  std::ofstream(json) << plain;
  const Options o = parse({json});
  CHECK(o.str("model") == "m.onnx");
  CHECK(o.num("lr") == 0.5);
  std::filesystem::remove(json);
}

TEST_CASE("a bad configuration file is refused with file, key and reason", "[cli]") {
  CHECK(mentions(config_refusal(R"({"learning_rat": 1})"), {"unknown key 'learning_rat'", "'learning_rate'"}));
  CHECK(mentions(config_refusal(R"({"report_to": "none"})"), {"unknown key", "metrics.jsonl"}));
  CHECK(mentions(config_refusal(R"({"lr": -1})"), {"--lr -1", "at least 0", "key 'lr'"}));
  CHECK(mentions(config_refusal(R"({"lr": [1]})"), {"key 'lr'", "array"}));
  CHECK(mentions(config_refusal(R"({"freeze": [{}]})"), {"key 'freeze'", "object"}));
  CHECK(mentions(config_refusal(R"({"lr": 1, "learning_rate": 2})"), {"the same flag", "--lr"}));
  CHECK(mentions(config_refusal(R"({"lr": 1, "lr": 2})"), {"'lr'", "twice"}));
  CHECK(mentions(config_refusal(R"({"config": "b.json"})"), {"key 'config'"}));
  CHECK(mentions(config_refusal("{\n\"lr\": }"), {"not valid JSON", "line 2"}));
  CHECK(mentions(config_refusal("[1]"), {"not an object"}));
  CHECK(mentions(config_refusal(""), {"not valid JSON"}));
  CHECK(mentions(config_refusal("\x89PNG\r\n\x1a\n"), {"not valid JSON"}));
  CHECK(mentions(config_refusal(std::string(100000, '[')), {"nests deeper than 100"}));
  CHECK(mentions(train_refusal({"--config", "no/such.json"}), {"no/such.json", "cannot be opened", "No such file"}));
  CHECK(mentions(train_refusal({"--config", "/"}), {"cannot be read"}));
}

TEST_CASE("a configuration made for one verb serves another", "[cli]") {
  const TempFile file(R"({"lr": 1, "vocab": "v.txt", "train": "t.csv"})");
  const Options o = parse({"tokenize", "--config", file.path});
  CHECK(o.str("vocab") == "v.txt");
  CHECK_FALSE(o.was_set("lr"));
}

TEST_CASE("environment variables", "[cli]") {
  const Options o = train({}, {"ONNX_AMP_USE_FP16=1", "ONNX_AMP_LEARNING_RATE=0.1", "ONNX_AMP_FREEZE=[ab]*",
                               "PATH=/bin", "ONNX_AMP_SEED=", "ONNX_AMP_TRAINABLE=[\"x\",\"y\"]", "ONNX_AMP_MAX_ISA=v3",
                               "ONNX_AMP_DEPS=/x", "ONNX_AMP_ZOO=/z", "ONNX_AMP_SKIP_APT=1", "ONNX_AMP_JSON=1"});
  CHECK(o.flag("use_fp16"));
  CHECK(o.source("use_fp16") == Source::environment);
  CHECK(mentions(o.origin("lr"), {"ONNX_AMP_LEARNING_RATE"}));
  CHECK(o.num("lr") == 0.1);
  CHECK(o.list("freeze") == Strings{"[ab]*"});
  CHECK(o.list("trainable") == Strings{"x", "y"});
  CHECK(o.integer("seed") == 42);
  CHECK(o.warnings.empty());
  CHECK_FALSE(parse({"tokenize", "--vocab", "v"}, {"ONNX_AMP_USE_FP16=1"}).was_set("use_fp16"));

  CHECK(mentions(train_refusal({}, {"ONNX_AMP_LR=fast"}), {"--lr fast", "environment variable ONNX_AMP_LR"}));
  CHECK(mentions(train_refusal({}, {"ONNX_AMP_NO_CUDA=x"}), {"--no_cuda x", "ONNX_AMP_NO_CUDA"}));
  CHECK(mentions(train_refusal({}, {"ONNX_AMP_OVERWRITE=1"}), {"ONNX_AMP_OVERWRITE", "command line"}));
  CHECK(mentions(train_refusal({}, {"ONNX_AMP_LR=1", "ONNX_AMP_LEARNING_RATE=2"}), {"the same flag"}));
  const Options typo = train({}, {"ONNX_AMP_USE_FP61=1", "ONNX_AMP_CI_PIPELINE_WORKSPACE=7"});
  REQUIRE(typo.warnings.size() == 1);
  CHECK(mentions(typo.warnings[0], {"ONNX_AMP_USE_FP61", "'use_fp16'"}));
}

TEST_CASE("precedence: command line, environment, config, plan, preset, default", "[cli]") {
  const TempFile file(R"({"lr": 3, "seed": 3, "batch_size": 3, "freeze": ["c"]})");
  const Strings environment{"ONNX_AMP_LR=2", "ONNX_AMP_SEED=2", "ONNX_AMP_CONFIG=" + file.path};
  Options o = train({"--lr", "1", "--freeze", "d"}, environment);
  CHECK(o.num("lr") == 1);
  CHECK(o.source("lr") == Source::command_line);
  CHECK(o.integer("seed") == 2);
  CHECK(o.source("seed") == Source::environment);
  CHECK(o.integer("batch_size") == 3);
  CHECK(o.source("batch_size") == Source::config);
  CHECK(o.list("freeze") == Strings{"d"});
  CHECK(o.source("epochs") == Source::fallback);
  CHECK_FALSE(o.was_set("epochs"));

  CHECK(o.offer("init_loss_scale", {"512"}, Source::preset, "O1"));
  CHECK(o.offer("init_loss_scale", {"1024"}, Source::plan, "plan.json"));
  CHECK_FALSE(o.offer("init_loss_scale", {"512"}, Source::preset, "O1"));
  CHECK_FALSE(o.offer("batch_size", {"9"}, Source::plan, "plan.json"));
  CHECK(o.num("init_loss_scale") == 1024);
  try {
    o.offer("init_loss_scale", {"0"}, Source::plan, "plan.json");
    FAIL("accepted");
  } catch (const amp::Error& e) {
    CHECK(mentions(e.what(), {"`init_loss_scale` 0", "plan.json"}));
  }
}

TEST_CASE("of two 16-bit types the stronger source decides, with a warning", "[cli]") {
  const Options o = train({"--use_bf16"}, {"ONNX_AMP_USE_FP16=1"});
  CHECK(o.flag("use_bf16"));
  CHECK_FALSE(o.flag("use_fp16"));
  REQUIRE(o.warnings.size() == 1);
  CHECK(mentions(o.warnings[0], {"--use_fp16 (environment)", "--use_bf16 (command line)"}));
  CHECK(mentions(train_refusal({}, {"ONNX_AMP_USE_FP16=1", "ONNX_AMP_USE_BF16=1"}), {"contradict"}));
}

TEST_CASE("the effective configuration reads back as the same options", "[cli]") {
  Options o = train({"--lr", "1e-4", "--freeze", "a", "--freeze", "b", "--max_loss_scale", "inf", "--delimiter", "tab",
                     "--warmup_steps", "0.1", "--inject_overflow", "1", "--val", "v", "--use_fp16"},
                    {"ONNX_AMP_SEED=7"});
  o.offer("scale_growth_interval", {"100"}, Source::plan, "p.json");
  const std::string text = effective_config_json(o);
  const auto json = nlohmann::json::parse(text);
  CHECK(json["verb"] == "train");
  CHECK(json["config"]["lr"] == 1e-4);
  CHECK(json["config"]["epochs"] == 3);
  CHECK(json["config"]["model"] == "m.onnx");
  CHECK(json["config"]["use_fp16"] == true);
  CHECK_FALSE(json["config"].contains("config"));
  CHECK_FALSE(json["config"].contains("json"));
  CHECK(json["sources"]["seed"] == "environment");
  CHECK_FALSE(json["sources"].contains("epochs"));

  auto run = json;
  run["final_metrics"] = {{"accuracy", 0.5}};  // a run.json has further members
  const TempFile file(run.dump());
  const Options again = parse({"--config", file.path});
  for (const Flag& f : flags()) {
    if (!has(f.verbs, Verb::train) || !f.recorded) continue;
    INFO(f.name);
    CHECK(again.value(f.name) == o.value(f.name));
  }
  CHECK(again.source("lr") == Source::config);
  CHECK(again.source("epochs") == Source::fallback);
  CHECK(again.source("scale_growth_interval") == Source::plan);  // a new plan may still replace it
  CHECK(again.source("eval_batch_size") == Source::derived);
  CHECK(parse({"--config", file.path, "--batch_size", "64"}).integer("eval_batch_size") == 64);
}

TEST_CASE("a path that is not UTF-8 does not stop the dump", "[cli]") {
  CHECK(nlohmann::json::accept(effective_config_json(train({"--val", "\xff\xfe.csv"}))));
}
