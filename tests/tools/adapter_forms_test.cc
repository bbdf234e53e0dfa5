// Files of adapters through the command line: each form of `lora_export` gives the loss of the trained model, a stopped
// run continues to the same bytes, `export` writes the same files, and training starts from an adapter.
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

const char* const kFiles[] = {"model.onnx",         "model.onnx.data",           "slots.json",
                              "model.onnx_adapter", "adapter_model.safetensors", "adapter_config.json"};

Said train(const std::string& model, const std::string& out, const std::vector<std::string>& more) {
  std::vector<std::string> words = {model,      "--train",      test_data("surgery/llm/lora.safetensors"),
                                    "--loss",   "causal_lm",    "--output_dir",
                                    out,        "--batch_size", "2",
                                    "--lr",     "0.01",         "--lr_scheduler_type",
                                    "constant", "--threads",    "1"};
  words.insert(words.end(), more.begin(), more.end());
  return run_verb(words);
}

double loss_of(const std::string& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"eval",   model,       "--val",     test_data("surgery/llm/lora.safetensors"),
                                    "--loss", "causal_lm", "--threads", "1"};
  words.insert(words.end(), more.begin(), more.end());
  const Said said = run_verb(words);
  INFO(said.out << said.err);
  REQUIRE(said.code == 0);
  return nlohmann::json::parse(said.out).at("loss").get<double>();
}

}  // namespace

TEST_CASE("each form of an adapter's export gives the loss of the trained model") {
  const TempDir f;
  const std::string base = test_data("llm/llama-int4");
  const std::vector<std::string> lora = {"--lora", "r=2,alpha=4", "--max_steps", "3"};
  const auto with = [&](const std::string& forms) {
    std::vector<std::string> words = lora;
    words.insert(words.end(), {"--lora_export", forms});
    const Said said = train(base, f / forms, words);
    INFO(said.out << said.err);
    REQUIRE(said.code == 0);
  };
  for (const char* forms : {"keep", "slots", "adapter", "peft"}) with(forms);
  const double untrained = loss_of(base), trained = loss_of(f / "keep");
  CHECK(trained < 0.9 * untrained);
  // The forms add numbers in different orders, and a form may store B multiplied by LoRA's scale, so losses differ by
  // rounding.
  const auto near = [&](double x) { return Catch::Matchers::WithinRel(x, 1e-6); };
  CHECK_THAT(loss_of(f / "slots"), near(trained));
  CHECK_THAT(loss_of(f / "slots", {"--adapter", "none"}), near(untrained));
  CHECK_THAT(loss_of(f / "slots/model.onnx"), near(untrained));
  CHECK_THAT(loss_of(f / "slots", {"--adapter", f / "slots/model.onnx_adapter"}), near(trained));
  for (const char* forms : {"slots", "adapter", "peft"}) {
    INFO(forms);
    CHECK_THAT(loss_of(base, {"--adapter", f / forms}), near(trained));
  }
}

TEST_CASE("a stopped run writes the files of its adapter with the same bytes, and export writes them again") {
  const TempDir f;
  const std::string base = test_data("llm/llama-int4");
  const auto run = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--lora", "r=2,alpha=4,dropout=0.1", "--lora_export", "slots,peft"};
    words.insert(words.end(), more.begin(), more.end());
    const Said said = train(base, f / out, words);
    INFO(said.out << said.err);
    REQUIRE(said.code == 0);
  };
  run("whole", {"--max_steps", "4"});
  run("half", {"--max_steps", "2"});
  run("half", {"--max_steps", "4", "--resume", "auto"});
  for (const std::string file : kFiles) {
    INFO(file);
    CHECK(bytes_of(f / ("half/" + file)) == bytes_of(f / ("whole/" + file)));
  }
  REQUIRE(run_verb({"export", f / "half", "--out", f / "again/model.onnx"}).code == 0);
  for (const char* file : {"slots.json", "model.onnx_adapter", "adapter_model.safetensors"}) {
    INFO(file);
    CHECK(bytes_of(f / (std::string("again/") + file)) == bytes_of(f / (std::string("whole/") + file)));
  }
}

TEST_CASE("training starts from an adapter and keeps its bits without a step") {
  const TempDir f;
  const std::string base = test_data("llm/llama-int4");
  REQUIRE(train(base, f / "first", {"--lora", "r=2,alpha=4", "--lora_export", "peft", "--max_steps", "2"}).code == 0);
  const Said said =
      train(base, f / "second", {"--adapter", f / "first", "--lora_export", "peft", "--max_steps", "1", "--lr", "0"});
  INFO(said.out << said.err);
  REQUIRE(said.code == 0);
  CHECK(bytes_of(f / "second/adapter_model.safetensors") == bytes_of(f / "first/adapter_model.safetensors"));
}

TEST_CASE("an adapter of another base or a damaged one is refused") {
  const TempDir f;
  REQUIRE(train(test_data("llm/llama-int4"), f / "run",
                {"--lora", "r=2,alpha=4", "--lora_export", "adapter,peft", "--max_steps", "1"})
              .code == 0);
  const auto refused = [&](const std::string& model, const std::string& adapter, int code, const std::string& id) {
    const Said said = run_verb({"eval", model, "--adapter", adapter, "--val", test_data("surgery/llm/lora.safetensors"),
                                "--loss", "causal_lm", "--threads", "1"});
    INFO(said.out << said.err);
    CHECK(said.code == code);
    CHECK(said.id == id);
  };
  refused(test_data("zoo/bert_cls_eager_ts14/model.onnx"), f / "run/model.onnx_adapter", 5, "E_ADAPTER_FIT");
  refused(test_data("zoo/bert_cls_eager_ts14/model.onnx"), f / "run", 5, "E_ADAPTER_FIT");
  const std::string bytes = bytes_of(f / "run/model.onnx_adapter");
  write_bytes(f / "cut.onnx_adapter", bytes.substr(0, bytes.size() / 2));
  refused(test_data("llm/llama-int4"), f / "cut.onnx_adapter", 5, "E_ADAPTER");
  refused(test_data("llm/llama-int4"), f / "nothing", 2, "E_ADAPTER_PATH");
}

TEST_CASE("an adapter of a base with other weights of the same sizes gives a warning") {
  const TempDir f;
  const std::string base = test_data("llm/llama-int4"), other = f / "other";
  REQUIRE(train(base, f / "run", {"--lora", "r=2,alpha=4", "--lora_export", "slots,peft", "--max_steps", "1"}).code ==
          0);
  fs::copy(base, other);
  std::string weights = bytes_of(other + "/model.onnx.data");
  for (size_t i = 0; i < weights.size(); i += 16) weights[i] ^= 1;
  write_bytes(other + "/model.onnx.data", weights);
  const auto warns = [&](const std::string& model, const std::string& adapter) {
    const Said said = run_verb({"eval", model, "--adapter", adapter, "--val", test_data("surgery/llm/lora.safetensors"),
                                "--loss", "causal_lm", "--threads", "1"});
    INFO(said.out << said.err);
    CHECK(said.code == 0);
    return said.err.find("W_ADAPTER_BASE") != std::string::npos;
  };
  // Copies the run's PEFT files without its .onnx_adapter.
  fs::create_directory(f / "peft");
  for (const std::string file : {"adapter_config.json", "adapter_model.safetensors"})
    fs::copy(f / ("run/" + file), f / ("peft/" + file));
  for (const std::string& adapter : {f / "run/model.onnx_adapter", f / "peft"}) {
    INFO(adapter);
    CHECK_FALSE(warns(base, adapter));
    CHECK_FALSE(warns(f / "run/model.onnx", adapter));  // the run's own model: the base with slots for adapters
    CHECK(warns(other, adapter));
  }
  const Said said = train(other, f / "second", {"--adapter", f / "peft", "--max_steps", "1"});
  CHECK(said.code == 0);
  CHECK_THAT(said.err, ContainsSubstring("W_ADAPTER_BASE"));
}

TEST_CASE("init=pissa is refused with every form that writes the files of an adapter") {
  const TempDir f;
  for (const char* forms :
       {"slots", "adapter", "peft", "slots,adapter", "merge,adapter", "keep,adapter", "keep,peft"}) {
    INFO(forms);
    const Said said = train(test_data("llm/qwen3-fp32"), f / "run",
                            {"--lora", "r=2,init=pissa", "--lora_export", forms, "--max_steps", "1"});
    CHECK(said.code == 2);
    CHECK(said.id == "E_LORA_EXPORT");
    CHECK_THAT(said.fact, ContainsSubstring("init=pissa"));
  }
}

TEST_CASE("notes say whether the adapter beside a base with slots is applied") {
  const TempDir f;
  REQUIRE(train(test_data("llm/llama-int4"), f / "run",
                {"--lora", "r=2,alpha=4", "--lora_export", "slots", "--max_steps", "1"})
              .code == 0);
  const auto said = [&](const std::string& model, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"eval",   model,       "--val",     test_data("surgery/llm/lora.safetensors"),
                                      "--loss", "causal_lm", "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return must_run(words).err;
  };
  const std::string on = "model.onnx_adapter' on 14 linear maps", off = "the adapter beside it is not applied";
  const std::string folder = said(f / "run", {});
  CHECK_THAT(folder, ContainsSubstring(on) && ContainsSubstring("--adapter none: the base") && !ContainsSubstring(off));
  const std::string file = said(f / "run/model.onnx", {});
  CHECK_THAT(file, ContainsSubstring(off) && !ContainsSubstring(on));
  const std::string none = said(f / "run", {"--adapter", "none"});
  CHECK_THAT(none, !ContainsSubstring("adapter"));
  const Said trained = train(f / "run", f / "second", {"--lora", "r=2,alpha=4", "--max_steps", "1"});
  CHECK(trained.code == 0);
  CHECK_THAT(trained.err, ContainsSubstring(off));
}

TEST_CASE("an adapter that the run's model holds already is refused, and applies to the base") {
  const TempDir f;
  const std::string base = test_data("llm/qwen3-fp32");
  for (const char* forms : {"merge,adapter", "keep,peft"}) {
    INFO(forms);
    const std::string run = f / forms;
    REQUIRE(train(base, run, {"--lora", "r=2,alpha=4", "--lora_export", forms, "--max_steps", "2"}).code == 0);
    for (const std::string& model : {run, run + "/model.onnx"}) {
      const Said said = run_verb({"eval", model, "--adapter", run, "--val", test_data("surgery/llm/lora.safetensors"),
                                  "--loss", "causal_lm", "--threads", "1"});
      CHECK(said.id == "E_ADAPTER_PATH");
      CHECK(said.code == 2);
      CHECK_THAT(said.fact, ContainsSubstring("already"));
    }
    CHECK(train(run, f / "more", {"--adapter", run, "--max_steps", "1"}).id == "E_ADAPTER_PATH");
    CHECK_THAT(loss_of(base, {"--adapter", run}), Catch::Matchers::WithinRel(loss_of(run), 1e-5));
  }
}

TEST_CASE("a run's folder without a model names the command that applies its adapter") {
  const TempDir f;
  for (const char* forms : {"adapter", "peft"}) {
    INFO(forms);
    const std::string run = f / forms;
    REQUIRE(
        train(test_data("llm/llama-int4"), run, {"--lora", "r=2,alpha=4", "--lora_export", forms, "--max_steps", "1"})
            .code == 0);
    const Said said = run_verb({"eval", run, "--val", test_data("surgery/llm/lora.safetensors"), "--threads", "1"});
    CHECK(said.id == "E_RUN");
    CHECK_THAT(said.hint, ContainsSubstring("eval BASE --adapter '" + run + "'"));
  }
}

TEST_CASE("an adapter of a tied head fits the head and not the embedding, in each form") {
  const TempDir f;
  const std::string base = test_data("llm/qwen3-fp32");
  const auto with = [&](const std::string& forms) {
    const Said said =
        train(base, f / forms, {"--lora", "r=2,targets=head", "--lora_export", forms, "--max_steps", "2"});
    INFO(said.out << said.err << said.fact);
    REQUIRE(said.code == 0);
  };
  with("merge");
  const double trained = loss_of(f / "merge");
  CHECK(trained < 0.99 * loss_of(base));
  for (const char* forms : {"slots", "adapter", "peft"}) {
    INFO(forms);
    with(forms);
    CHECK_THAT(loss_of(base, {"--adapter", f / forms}), Catch::Matchers::WithinRel(trained, 1e-6));
  }
  CHECK_THAT(loss_of(f / "slots"), Catch::Matchers::WithinRel(trained, 1e-6));
}

TEST_CASE("exports of several adapters keep their files apart") {
  const TempDir f;
  const std::string base = test_data("llm/llama-int4"), forms = "slots,peft";
  for (const char* rank : {"1", "2"}) {
    const std::string run = f / rank;
    REQUIRE(train(base, run, {"--lora", std::string("r=") + rank, "--lora_export", forms, "--max_steps", "1"}).code ==
            0);
    // The exports are named as files (NAME.onnx), so each one has its own PEFT folder, NAME.
    const std::string name = std::string("out/r") + rank;
    REQUIRE(run_verb({"export", run, "--out", f / (name + ".onnx")}).code == 0);
    CHECK(bytes_of(f / (name + ".onnx_adapter")) == bytes_of(run + "/model.onnx_adapter"));
    CHECK(bytes_of(f / (name + ".slots.json")) == bytes_of(run + "/slots.json"));
  }
  for (const std::string rank : {"1", "2"}) {
    for (const std::string file : {"adapter_config.json", "adapter_model.safetensors"})
      CHECK(bytes_of(f / ("out/r" + rank + "/" + file)) == bytes_of(f / (rank + "/" + file)));
    // The note about an adapter beside the model names the file of this export.
    const Said said = run_verb({"eval", f / ("out/r" + rank + ".onnx"), "--val",
                                test_data("surgery/llm/lora.safetensors"), "--loss", "causal_lm", "--threads", "1"});
    CHECK(said.err.find("r" + rank + ".onnx_adapter") != std::string::npos);
  }
  // If `out` is a folder, its files get the names of those in a run's folder. Another export into it is refused.
  const std::string folder = f / "folder";
  fs::create_directory(folder);
  const std::string out = GENERATE(false, true) ? folder : folder + "/";
  REQUIRE(run_verb({"export", f / "1", "--out", out}).code == 0);
  for (const std::string file : {"model.onnx", "slots.json", "model.onnx_adapter", "adapter_model.safetensors"}) {
    INFO(file);
    CHECK(bytes_of(folder + "/" + file) == bytes_of(f / ("1/" + file)));
  }
  const Said refused = run_verb({"export", f / "2", "--out", out});
  CHECK(refused.code == 2);
  CHECK(refused.id == "E_OUTPUT_FOREIGN");
  CHECK(bytes_of(folder + "/adapter_model.safetensors") == bytes_of(f / "1/adapter_model.safetensors"));
  CHECK(run_verb({"export", base, "--out", out}).id == "E_OUTPUT_FOREIGN");
}

TEST_CASE("a PEFT folder names its base") {
  const TempDir f;
  const auto name_in = [](const std::string& folder) {
    return nlohmann::json::parse(bytes_of(folder + "/adapter_config.json"))["base_model_name_or_path"];
  };
  const auto exported = [&](const std::string& model, const std::string& out) {
    REQUIRE(train(model, f / out, {"--lora", "r=1", "--lora_export", "peft", "--max_steps", "1"}).code == 0);
    return name_in(f / out);
  };
  const std::string base = f / "my-llama";
  fs::copy(test_data("llm/llama-int4"), base);
  CHECK(exported(base, "a") == "my-llama");
  CHECK(exported(base + "/model.onnx", "b") == "my-llama");
  write_bytes(base + "/config.json", R"({"model_type": "llama", "_name_or_path": "org/llama"})");
  CHECK(exported(base, "c") == "org/llama");
  // If the base is a file without a config.json beside it, it is named after the file.
  fs::create_directory(f / "files");
  fs::copy(base + "/model.onnx", f / "files/small.onnx");
  fs::copy(base + "/model.onnx.data", f / "files/model.onnx.data");
  CHECK(exported(f / "files/small.onnx", "d") == "small");
  // Training that began with a folder keeps the name that the user gave it.
  nlohmann::json config = nlohmann::json::parse(bytes_of(f / "c/adapter_config.json"));
  config["base_model_name_or_path"] = "mine";
  write_bytes(f / "c/adapter_config.json", config.dump());
  REQUIRE(train(base, f / "e", {"--adapter", f / "c", "--lora_export", "peft", "--max_steps", "1"}).code == 0);
  CHECK(name_in(f / "e") == "mine");
}
