// Configuration files that other trainers wrote (tests/data/cli/make_configs.py).
#include "tools/cli/other_trainers.h"

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "base/error.h"
#include "run/settings/values.h"
#include "tests/cli/cli_helper.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::cli;

namespace {

Options with_config(const std::string& name) {
  return train({"--val", "v.csv", "--config", test::test_data("cli/" + name)});
}

// Returns the only warning, which lists the unused keys.
std::string said(const Options& o) {
  REQUIRE(o.warnings.size() == 1);
  return o.warnings[0];
}

}  // namespace

TEST_CASE("Hugging Face's TrainingArguments are a configuration", "[cli]") {
  const Options o = with_config("training_args.json");
  CHECK(o.str("output_dir") == "out");
  CHECK(o.num("lr") == 3e-5);
  CHECK(o.integer("batch_size") == 16);
  CHECK(o.integer("eval_batch_size") == 8);
  CHECK(o.num("epochs") == 2);
  CHECK(o.integer("max_steps") == -1);
  CHECK(o.num("warmup_steps") == 0.1);
  CHECK(o.num("weight_decay") == 0.01);
  CHECK(o.num("max_grad_norm") == 1);
  CHECK(o.str("optimizer") == "adamw");
  CHECK(o.str("lr_scheduler") == "cosine_with_min_lr");
  CHECK(parse_arguments("lr_scheduler_kwargs", o.str("lr_scheduler_kwargs")).at("min_lr") == "1e-06");
  CHECK(o.num("label_smoothing") == 0.1);
  CHECK(o.integer("eval_steps") == 50);
  CHECK(o.integer("save_steps") == 100);
  CHECK(o.integer("save_total_limit") == 2);
  CHECK(o.str("export_weights") == "best");
  CHECK(o.str("metric_for_best_model") == "accuracy");
  CHECK(o.integer("gradient_accumulation_steps") == 2);
  CHECK(o.flag("group_by_length"));
  CHECK(o.str("device") == "cpu");
  CHECK(o.integer("seed") == 7);
  CHECK_FALSE(o.flag("use_fp16"));
  CHECK(mentions(said(o), {"Hugging Face's TrainingArguments", "neftune_noise_alpha"}));
  CHECK_FALSE(mentions(said(o), {"learning_rate"}));
}

TEST_CASE("timm's args.yaml is a configuration", "[cli]") {
  const Options o = with_config("args.yaml");
  CHECK(o.str("optimizer") == "adamw");
  CHECK(o.num("lr") == 1e-3);  // timm: lr_base * sqrt(batch_size 64 * grad_accum_steps 4 / lr_base_size 256)
  CHECK(parse_arguments("optim_args", o.str("optim_args")).at("beta2") == "0.95");
  CHECK(o.num("weight_decay") == 0.05);
  CHECK(o.num("layer_decay") == 0.75);
  CHECK(o.num("max_grad_norm") == 1);
  CHECK(o.integer("batch_size") == 64);
  CHECK(o.integer("gradient_accumulation_steps") == 4);
  CHECK(o.str("lr_scheduler") == "timm_cosine");
  const auto set = parse_arguments("lr_scheduler_kwargs", o.str("lr_scheduler_kwargs"));
  CHECK(set.at("sched_on_updates") == "true");
  CHECK(std::stod(set.at("warmup_epochs")) == 3);
  CHECK(std::stod(set.at("warmup_lr")) == 1e-6);
  CHECK(std::stod(set.at("min_lr")) == 1e-5);
  CHECK(std::stod(set.at("cooldown_epochs")) == 2);
  CHECK(o.num("epochs") == 22);  // 20 epochs and 2 of the cooldown
  CHECK(o.flag("use_bf16"));
  CHECK(o.list("ema_decay") == std::vector<std::string>{"0.999"});
  CHECK(o.num("label_smoothing") == 0.2);
  CHECK(o.integer("num_labels") == 10);
  CHECK(o.integer("seed") == 3);
  CHECK(o.num("mixup") == 0.2);
  CHECK(mentions(said(o), {"timm's train.py", "mixup_mode", "color_jitter"}));
  CHECK_FALSE(mentions(said(o), {"weight_decay"}));
  CHECK_FALSE(mentions(said(o), {"lr_base"}));
}

TEST_CASE("timm's names of optimizers and schedules mean what they mean there", "[cli]") {
  const Options o = with_config("sgd.yaml");
  CHECK(o.str("optimizer") == "sgd");
  CHECK(o.num("momentum") == 0.9);
  CHECK(o.flag("nesterov"));  // timm's name "sgd" means SGD with Nesterov momentum
  CHECK(o.num("lr") == 0.05);
  CHECK(o.num("max_grad_norm") == 0);
  CHECK(o.str("lr_scheduler") == "timm_step");
  CHECK(std::stod(parse_arguments("x", o.str("lr_scheduler_kwargs")).at("decay_epochs")) == 2.4);
  CHECK(o.num("epochs") == 9);
}

TEST_CASE("timm's wsd, rsqrt and tanh come with their settings", "[cli]") {
  std::ifstream in(test::test_data("cli/args.yaml"));
  const std::string file((std::istreambuf_iterator<char>(in)), {});
  const test::TempDir folder;
  for (const char* const kind : {"wsd", "rsqrt", "tanh"}) {
    INFO(kind);
    std::string text = file;
    text.replace(text.find("sched: cosine"), 13, std::string("sched: ") + kind);
    text.replace(text.find("decay_epochs: 90"), 16, "decay_epochs: 0.3\ndecay_fn: cosine\nstable_timescale: 7");
    std::ofstream(folder / "args.yaml") << text;
    const Options o = train({"--val", "v.csv", "--config", folder / "args.yaml"});
    CHECK(o.str("lr_scheduler") == std::string("timm_") + kind);
    CHECK(o.num("epochs") == 22);  // epochs include the cooldown
    auto set = parse_arguments("lr_scheduler_kwargs", o.str("lr_scheduler_kwargs"));
    CHECK(std::stod(set.at("min_lr")) == 1e-5);
    CHECK(std::stod(set.at("cooldown_epochs")) == 2);
    CHECK(set.count("decay_fn") == (kind[0] != 't'));
    if (kind[0] != 't') CHECK(set.at("decay_fn") == "cosine");
    if (kind[0] != 't') CHECK(std::stod(set.at("decay_epochs")) == 0.3);
    CHECK(set.count("stable_timescale") == (kind[0] == 'r'));
  }
}

TEST_CASE("a command line comes before another trainer's file, and a few of its names are just spellings", "[cli]") {
  const Options o =
      train({"--val", "v.csv", "--config", test::test_data("cli/args.yaml"), "--lr", "0.5", "--ema_decay", "0"});
  CHECK(o.num("lr") == 0.5);
  CHECK(o.list("ema_decay") == std::vector<std::string>{"0"});
  CHECK_FALSE(of_other_trainer({{"learning_rate", 1e-4}, {"per_device_train_batch_size", 8}}).has_value());
}

TEST_CASE("YAML is read as JSON is", "[cli]") {
  const auto json = yaml_to_json("a: 1.0e-05\nb: [x, '1', ~]\nc: {d: true}\ne:\n- 2\n", "f.yaml");
  CHECK(json.dump() == R"({"a":1e-05,"b":["x","1",null],"c":{"d":true},"e":[2]})");
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string from = std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k ? ", *a" : "*a") + from;
    bomb += "]\n";
  }
  for (const std::string& text : {std::string("a: [1, 2"), std::string("a: 1\na: 2\n"), bomb, std::string("a: *b")}) {
    INFO(text.substr(0, 60));
    try {
      yaml_to_json(text, "f.yaml");
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.exit() == Exit::usage);
      CHECK(mentions(e.what(), {"f.yaml"}));
    }
  }
}
