// Parameter groups: the effect of group options and layer decay on a run's weights, its records and its resumption.
#include "run/prepare/param_groups.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "run/run.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using amp::test::error_of;
using amp::test::TempDir;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

// Returns a run of LeNet, whose parameters are N.weight and N.bias for N = 0, 3, 7, 9, 11.
RunSpec lenet(const TempDir& f, const std::string& run) {
  const std::string entry = test::test_data("zoo/lenet_relu_dyn18");
  RunSpec spec;
  spec.model.model = entry + "/model.onnx";
  spec.data.train = entry + "/batch.safetensors";
  spec.output.output_dir = f / run;
  spec.objective.loss = {"cross_entropy"};
  spec.schedule.lr_scheduler = "constant";
  spec.optimization.optimizer = "sgd";
  spec.optimization.lr = 0.1;
  spec.optimization.weight_decay = 0.5;
  spec.optimization.decay_exclude = "none";
  spec.optimization.max_grad_norm = 0;
  spec.schedule.max_steps = 1;
  spec.device.device = "cpu";
  return spec;
}

// Returns a run of an encoder of two layers to which a head is added.
RunSpec minilm(const TempDir& f) {
  RunSpec spec;
  spec.model.model = test::test_data("zoo/minilm_embed_ts14/model.onnx");
  std::ofstream(f / "vocab.txt") << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\n";
  std::ofstream(f / "train.csv") << "text,label\ngood,fine\nbad,poor\ngood good,fine\nbad bad,poor\n";
  spec.data.train = f / "train.csv";
  spec.data.text.vocab = f / "vocab.txt";
  spec.data.text.text_columns = {"text"};
  spec.output.output_dir = f / "run";
  spec.device.device = "cpu";
  spec.schedule.max_steps = 1;
  return spec;
}

using Weights = std::map<std::string, std::vector<double>>;

Weights weights(const std::string& model) {
  Weights out;
  const Imported m = import_model(model);
  for (const SourceValue& v : m.graph.values) {
    if (v.kind == SourceKind::parameter) out[v.name] = v.data.to_doubles();
  }
  return out;
}

Weights trained(const RunSpec& spec, const Host& host = {}) { return weights(train(*prepare(spec, host)).model); }

ParamGroups groups_of(const RunSpec& spec) { return prepare(spec)->ready.groups; }

}  // namespace

TEST_CASE("a group has a rate and a decay of its own, the rest moves as before", "[groups]") {
  const TempDir f;
  RunSpec spec = lenet(f, "plain");
  const Weights start = weights(spec.model.model), plain = trained(spec);
  spec.output.output_dir = f / "grouped";
  spec.optimization.param_group = {"*.bias: lr=0.05, weight_decay=0", "{\"params\": \"7.*\", \"lr_scale\": 3}",
                                   "11.bias: freeze=true"};
  const Weights grouped = trained(spec);
  for (const auto& [name, before] : start) {
    INFO(name);
    const bool bias = name.ends_with(".bias"), seventh = name.starts_with("7."), frozen = name == "11.bias";
    const double rate = frozen ? 0 : seventh ? 0.3 : bias ? 0.05 : 0.1, decay = bias ? 0 : 0.5;
    for (size_t i = 0; i < before.size(); ++i) {
      const double gradient = (before[i] - plain.at(name)[i]) / 0.1 - 0.5 * before[i];
      const double want = before[i] - rate * (gradient + decay * before[i]);
      if (!bias && !seventh) REQUIRE(grouped.at(name)[i] == plain.at(name)[i]);
      // The tolerance covers the rounding errors of a few operations on numbers below 1.
      REQUIRE(std::abs(grouped.at(name)[i] - want) < 1e-6);
      if (frozen) REQUIRE(grouped.at(name)[i] == before[i]);
    }
  }
}

TEST_CASE("later rows win, key by key", "[groups]") {
  const TempDir f;
  RunSpec spec = lenet(f, "run");
  spec.optimization.param_group = {"*: freeze=true, weight_decay=0.25, lr=0.2", "9.*:freeze=no",
                                   "11.*: freeze=false, lr_scale=0.5"};
  const auto run = prepare(spec);
  const ParamGroups& groups = run->ready.groups;
  std::set<std::string> training;
  for (const SourceValue& v : run->graph().values) {
    if (v.kind == SourceKind::parameter && v.trainable) training.insert(v.name);
  }
  CHECK(training == std::set<std::string>{"9.weight", "9.bias", "11.weight", "11.bias"});
  CHECK(groups.own.at("9.bias").lr_factor == 2);
  CHECK(groups.own.at("11.bias").lr_factor == 0.5);
  CHECK(groups.own.at("11.bias").weight_decay == 0.25);
}

TEST_CASE("a run tells and records its groups", "[groups]") {
  const TempDir f;
  RunSpec spec = lenet(f, "run");
  spec.optimization.param_group = {"*.bias: lr=0.05, weight_decay=0", "3.*: lr_scale=2", "3.*: freeze=true"};
  std::vector<std::string> said, details, warnings;
  Host host;
  host.log = Log([&](Level level, const std::string& text) {
    (level == Level::detail ? details : level == Level::warning ? warnings : said).push_back(text);
  });
  trained(spec, host);
  const auto holds = [](const std::vector<std::string>& lines, const std::string& line) {
    return std::count(lines.begin(), lines.end(), line) == 1;
  };
  CHECK(holds(said, "group '*.bias': 4 tensors, 220 parameters (and 1 frozen): lr 0.05, weight decay 0"));
  CHECK(holds(said, "group '3.*': 0 tensors, 0 parameters (and 2 frozen): frozen"));
  CHECK(holds(warnings, "group '3.*': 0 tensors, 0 parameters (and 2 frozen): lr x 2; none of them trains"));
  CHECK(holds(details, "group: 0.bias: lr 0.05, weight decay 0"));
  const json record = json::parse(std::string(read_file(f / "run" + "/run.json").text()));
  CHECK(record.at("config").at("param_group") == json(spec.optimization.param_group));
  const json& group = record.at("groups").at("param_group").at(0);
  CHECK(group == json{{"params", "*.bias"}, {"lr", 0.05}, {"weight_decay", 0.0}, {"tensors", 4}, {"parameters", 220}});
}

TEST_CASE("a resumed run has the groups it began with", "[groups]") {
  const TempDir f;
  RunSpec spec = lenet(f, "run");
  spec.optimization.param_group = {"*.bias: lr=0.05"};
  trained(spec);
  spec.output.resume = "auto";
  spec.schedule.max_steps = 2;
  RunSpec other = spec;
  other.optimization.param_group = {"*.bias: lr=0.02"};
  other.optimization.layer_decay = 1;
  const Error e = error_of([&] { trained(other); });
  CHECK(e.exit() == Exit::checkpoint);
  CHECK_THAT(e.fact(), ContainsSubstring("param_group was *.bias: lr=0.05, is *.bias: lr=0.02"));
  const Weights resumed = trained(spec);
  RunSpec whole = lenet(f, "whole");
  whole.optimization.param_group = spec.optimization.param_group;
  whole.schedule.max_steps = 2;
  CHECK(resumed == trained(whole));
}

TEST_CASE("layer decay of an encoder with a new head and adapters", "[groups]") {
  const TempDir f;
  RunSpec spec = minilm(f);
  spec.optimization.layer_decay = 0.5;
  const auto factor = [](const ParamGroups& groups, const std::string& name) {
    INFO(name);
    REQUIRE(groups.own.count(name));
    return groups.own.at(name).lr_factor;
  };
  const ParamGroups groups = groups_of(spec);
  CHECK(factor(groups, "bert.embeddings.LayerNorm.bias") == 0.125);
  CHECK(factor(groups, "bert.encoder.layer.0.output.dense.bias") == 0.25);
  CHECK(factor(groups, "onnx::MatMul_408") == 0.25);
  CHECK(factor(groups, "onnx::MatMul_433") == 0.5);
  CHECK(std::count_if(groups.own.begin(), groups.own.end(), [](const auto& g) { return g.second.lr_factor == 1; }) ==
        2);
  // Names that the exporter did not keep are accepted, too.
  spec.optimization.param_group = {"bert.encoder.layer.0.*: lr_scale=0.3"};
  CHECK(factor(groups_of(spec), "onnx::MatMul_408") == 0.3);
  CHECK(factor(groups_of(spec), "onnx::MatMul_433") == 0.5);
  spec.optimization.param_group.clear();
  spec.model.lora = "r=2";
  const ParamGroups adapted = groups_of(spec);
  CHECK(factor(adapted, "bert.encoder.layer.0.attention.self.query.weight.lora_A") == 0.25);
  CHECK(factor(adapted, "bert.encoder.layer.1.output.dense.weight.lora_B") == 0.5);
  spec.model.lora = "r=2,lr_ratio=16";  // adds LoRA+'s rate of B to the rates of the layers
  const ParamGroups faster = groups_of(spec);
  CHECK(factor(faster, "bert.encoder.layer.0.attention.self.query.weight.lora_A") == 0.25);
  CHECK(factor(faster, "bert.encoder.layer.1.output.dense.weight.lora_B") == 8);
  spec.model.lora = "r=2";
  std::string line;
  Host host;
  host.log = Log([&](Level, const std::string& text) {
    if (text.starts_with("layer decay 0.5")) line = text;
  });
  train(*prepare(spec, host));
  CHECK(line == "layer decay 0.5: 2 layers, from embeddings x 0.125 up to head x 1; `verbose` lists them");
  const json record = json::parse(std::string(read_file(f / "run" + "/run.json").text()));
  REQUIRE(record.at("groups").at("layer_decay").size() == 4);
  CHECK(record["groups"]["layer_decay"][1].at("layer") == "bert.encoder.layer.1");
}

TEST_CASE("a group that waits stays as it is, and its gradient counts for nothing", "[groups]") {
  const TempDir f;
  RunSpec spec = lenet(f, "waits");
  spec.optimization.max_grad_norm = 0.1;
  spec.schedule.max_steps = 3;
  spec.optimization.param_group = {"0.*: unfreeze_step=2", "7.*: unfreeze_step=3"};
  const Weights start = weights(spec.model.model), waiting = trained(spec);
  CHECK(waiting.at("7.weight") == start.at("7.weight"));
  CHECK(waiting.at("0.weight") != start.at("0.weight"));
  spec.output.output_dir = f / "frozen";
  spec.optimization.param_group = {"0.*: freeze=true", "7.*: freeze=true"};
  spec.schedule.max_steps = 2;
  const Weights frozen = trained(spec);
  spec.output.output_dir = f / "waits for two";
  spec.optimization.param_group = {"0.*: unfreeze_step=2", "7.*: unfreeze_step=3"};
  CHECK(trained(spec) == frozen);
}

TEST_CASE("gradual unfreezing goes down from the head, a layer at a time", "[groups]") {
  const TempDir f;
  RunSpec spec = minilm(f);
  spec.optimization.gradual_unfreezing = 10;
  spec.optimization.param_group = {"bert.encoder.layer.0.attention.*: unfreeze_step=3"};
  const ParamGroups groups = groups_of(spec);
  const auto from = [&](const std::string& name) { return groups.own.at(name).unfreeze_step; };
  CHECK(from("bert.embeddings.LayerNorm.bias") == 30);
  CHECK(from("bert.encoder.layer.0.output.dense.bias") == 20);
  CHECK(from("bert.encoder.layer.0.attention.self.query.bias") == 3);
  CHECK(from("onnx::MatMul_433") == 10);
  CHECK(groups.own.at("bert.embeddings.LayerNorm.bias").lr_factor == 1);
  CHECK(std::count_if(groups.own.begin(), groups.own.end(),
                      [](const auto& g) { return g.second.unfreeze_step == 0; }) == 2);
  std::string line;
  Host host;
  host.log = Log([&](Level, const std::string& text) {
    if (text.starts_with("gradual unfreezing")) line = text;
  });
  train(*prepare(spec, host));
  CHECK(line == "gradual unfreezing: a layer every 10 steps, all from step 30");
  RunSpec plain = lenet(f, "none");
  plain.optimization.gradual_unfreezing = 10;
  CHECK_THAT(error_of([&] { prepare(plain); }).fact(), ContainsSubstring("`gradual_unfreezing` 10"));
}

TEST_CASE("rows that cannot be meant are usage errors", "[groups]") {
  const TempDir f;
  RunSpec spec = lenet(f, "run");
  const auto refused = [&](const std::string& row, const char* id, const std::string& part) {
    INFO(row);
    spec.optimization.param_group = {row};
    const Error e = error_of([&] { prepare(spec); });
    CHECK(e.exit() == Exit::usage);
    CHECK(e.id() == id);
    CHECK_THAT(e.fact() + "; " + e.hint(), ContainsSubstring(part));
  };
  refused("7.weigth: lr=0.1", "E_GLOB", "did you mean '7.weight'?");
  refused("11.weight.query*: lr=0.1", "E_GLOB", "nearest: 11.weight");
  refused("*: lrs=0.1", "E_FLAG_VALUE", "did you mean 'lr'?");
  refused("*: momentum=0.1", "E_FLAG_VALUE",
          "a group has: lr, lr_scale, weight_decay, max_grad_norm, unfreeze_step, freeze, adamw");
  refused("*: unfreeze_step=1.5", "E_FLAG_RANGE", "give a whole number of steps");
  refused("*: adamw=true", "E_FLAG_VALUE", "`optimizer` sgd moves all parameters in one way");
  spec.optimization.optimizer = "schedule_free_adamw";
  refused("*: unfreeze_step=3", "E_FLAG_VALUE", "a step of `optimizer` schedule_free_adamw depends on all before it");
  spec.optimization.optimizer = "sgd";
  refused("*: lr=-1", "E_FLAG_RANGE", "give a number >= 0");
  refused("*: weight_decay=inf", "E_FLAG_RANGE", "weight_decay is inf");
  refused("*: lr=fast", "E_FLAG_VALUE", "lr is 'fast'");
  refused("*: freeze=maybe", "E_FLAG_VALUE", "true or false");
  refused("*: lr=1, lr_scale=2", "E_FLAG_VALUE", "give one of them");
  refused("*", "E_FLAG_VALUE", "write 'GLOB: lr=1e-5");
  refused("*:", "E_FLAG_VALUE", "write 'GLOB: lr=1e-5");
  refused("{\"lr\": 1}", "E_FLAG_VALUE", "params");
  refused("{\"params\": ", "E_FLAG_VALUE", "is not understood");
  spec.optimization.lr = 0;
  refused("*: lr=0.1", "E_FLAG_VALUE", "`lr` is 0");
  spec.optimization.lr = 0.1;
  spec.optimization.param_group.clear();
  spec.optimization.layer_decay = 0.75;
  CHECK(error_of([&] { prepare(spec); }).id() == "E_LAYER_DECAY");
  spec.optimization.layer_decay = 1.5;
  CHECK_THAT(error_of([&] { prepare(spec); }).fact(), ContainsSubstring("above 0 and at most 1"));
}
