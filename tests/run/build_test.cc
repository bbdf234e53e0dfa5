// Models built from checkpoints of transformers, against transformers' outputs (tests/data/models); export back to
// checkpoints; new models of every architecture.
#include "run/model/build.h"

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/safetensors.h"
#include "importer/read/import.h"
#include "models/architecture.h"
#include "run/model/model_metadata.h"
#include "run/spec/spec.h"
#include "run/train/train.h"
#include "tests/errors.h"
#include "tests/run/outputs_of.h"
#include "tests/support.h"

using namespace amp;
using amp::test::error_of;
using amp::test::outputs_of;
using amp::test::TempDir;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> checkpoints() {
  std::vector<fs::path> out;
  for (const auto& e : fs::directory_iterator(test::test_data("models"))) {
    if (e.is_directory()) out.push_back(e.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Returns the largest difference without padding: outputs (B, S, ...) are compared at the tokens of the mask.
double largest_difference(const HostTensor& have, const HostTensor& want, const HostTensor* mask) {
  const std::vector<double> a = have.to_doubles(), b = want.to_doubles();
  REQUIRE(have.dims() == want.dims());
  const Dims& d = want.dims();
  const bool by_token = mask && d.size() >= 2 && d[0] == mask->dims()[0] && d[1] == mask->dims()[1];
  const std::vector<int64_t> real = by_token ? mask->to_ints() : std::vector<int64_t>();
  const size_t each = by_token ? b.size() / real.size() : 1;
  double most = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (!by_token || real[i / each]) most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

// Copies a checkpoint's configuration and weights to a folder.
void copy_checkpoint(const std::string& name, const TempDir& to) {
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(test::test_data("models/" + name) + "/" + file, to / file, fs::copy_options::overwrite_existing);
}

nlohmann::json config_in(const TempDir& f) {
  nlohmann::json j;
  std::ifstream(f / "config.json") >> j;
  return j;
}

std::string text_of(const Error& e) { return cat(e.id(), " ", e.what(), " ", e.hint()); }

std::string refusal(const TempDir& f) {
  const Error e = error_of([&] { convert_checkpoint({.model = f.path.string()}, f / "out.onnx"); });
  CHECK_FALSE(fs::exists(f / "out.onnx"));
  return text_of(e);
}

}  // namespace

TEST_CASE("a converted checkpoint computes what transformers computes") {
  for (const fs::path& folder : checkpoints()) {
    DYNAMIC_SECTION(folder.filename().string()) {
      const TempDir f;
      convert_checkpoint({.model = folder.string()}, f / "model.onnx");
      const Imported m = import_model(f / "model.onnx");
      const SafeTensors golden = read_safetensors((folder / "golden.safetensors").string());
      Tensors batch;
      for (const NamedTensor& t : golden.tensors) {
        if (t.name.rfind("in/", 0) == 0) batch[t.name.substr(3)] = t.tensor;
      }
      const Tensors have = outputs_of(m, batch);
      for (const auto& [name, value] : have) {
        const HostTensor* want = golden.find("out/" + name);
        INFO(name);
        REQUIRE(want);
        // The tolerance is about 10 times the fp32 rounding error of two layers. With the weights of
        // make_checkpoints.py, a wrong epsilon, rotary base, bias or attention scale changes outputs by at least 3e-4.
        double largest = 0;
        for (const double x : want->to_doubles()) largest = std::max(largest, std::abs(x));
        CHECK(largest_difference(value, *want, golden.find("in/attention_mask")) < 3e-6 * (1 + largest));
      }
    }
  }
}

TEST_CASE("a converted checkpoint goes back as it was") {
  for (const fs::path& folder : checkpoints()) {
    DYNAMIC_SECTION(folder.filename().string()) {
      const TempDir f;
      convert_checkpoint({.model = folder.string()}, f / "model.onnx");
      write_checkpoint(f / "model.onnx", f / "back");
      const SafeTensors before = read_safetensors((folder / "model.safetensors").string()),
                        after = read_safetensors(f / "back/model.safetensors");
      size_t unused = 0;
      for (const NamedTensor& t : before.tensors) {
        INFO(t.name);
        // CLIP's classifier does not use the result of the last norm.
        if (folder.filename() == "clip_classifier" && t.name.rfind("vision_model.post_layernorm.", 0) == 0) {
          ++unused;
          continue;
        }
        const HostTensor* back = after.find(t.name);
        REQUIRE(back);
        CHECK(back->dims() == t.tensor.dims());
        CHECK(back->to_doubles() == t.tensor.to_doubles());
      }
      CHECK(before.tensors.size() == after.tensors.size() + unused);
    }
  }
}

TEST_CASE("every architecture is created, and all its weights are trained") {
  const std::map<std::string, std::string> small = {
      {"bert",
       R"({"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 50})"},
      {"distilbert", R"({"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32, "vocab_size": 50})"},
      {"gpt2", R"({"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 50, "n_positions": 32})"},
      {"llama",
       R"({"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32, "vocab_size": 50})"},
      {"vit",
       R"({"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "image_size": 16, "patch_size": 8})"},
      {"unet", R"({"width": 4, "depth": 2})"},
      {"albert",
       R"({"hidden_size": 16, "embedding_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 50})"},
      {"clip",
       R"({"projection_dim": 8, "text_config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 50}, "vision_config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "image_size": 16, "patch_size": 8}})"},
      {"deberta-v2",
       R"({"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 50, "position_buckets": 8})"},
      {"modernbert",
       R"({"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 50})"},
      {"convnext", R"({"hidden_sizes": [4, 8], "depths": [1, 2], "image_size": 16})"}};
  for (const Architecture* a : architectures()) {
    DYNAMIC_SECTION(a->name) {
      const TempDir f;
      auto config = small.find(std::string(a->name));
      if (a->name == "roberta" || a->name == "electra") config = small.find("bert");
      const BuiltModel built = create_model(
          {.model = std::string(a->name), .config = config == small.end() ? "" : config->second}, f / "m.onnx");
      const Imported m = import_model(f / "m.onnx");
      int64_t trained = 0;
      for (const SourceValue& v : m.graph.values) trained += v.trainable ? v.data.numel() : 0;
      CHECK(trained == built.parameters);
    }
  }
}

TEST_CASE("the same seed draws the same model, another one another") {
  const TempDir f;
  create_model({.model = "lenet"}, f / "a.onnx");
  create_model({.model = "lenet"}, f / "b.onnx");
  create_model({.model = "lenet", .seed = 7}, f / "c.onnx");
  CHECK(read_file(f / "a.onnx").text() == read_file(f / "b.onnx").text());
  CHECK(read_file(f / "a.onnx").text() != read_file(f / "c.onnx").text());
}

TEST_CASE("ModernBERT's weights are drawn from a normal distribution cut at two deviations") {
  const TempDir f;
  create_model(
      {.model = "modernbert",
       .config = R"({"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 900})"},
      f / "m.onnx");
  const SourceGraph g = import_model(f / "m.onnx").graph;
  const std::vector<double> x =
      g.values[static_cast<size_t>(g.find("model.embeddings.tok_embeddings.weight"))].data.to_doubles();
  double most = 0, squares = 0;
  for (const double v : x) {
    most = std::max(most, std::abs(v));
    squares += v * v;
  }
  CHECK(most <= 0.04f);
  CHECK(most > 0.0399);
  // Variance of a standard normal variable truncated to [-2, 2]: 1 - 4 phi(2) / (2 Phi(2) - 1)
  CHECK(squares / static_cast<double>(x.size()) / (0.02 * 0.02) == Catch::Approx(0.7737).epsilon(0.02));
}

TEST_CASE("a run of drawn weights at a rate for fine-tuning is told of it, until it is trained") {
  const TempDir f;
  create_model({.model = "lenet"}, f / "m.onnx");
  const Imported model = import_model(f / "m.onnx");
  CHECK(never_trained(*model.doc));
  std::string input;
  for (const SourceValue& v : model.graph.values) input = v.kind == SourceKind::input ? v.name : input;
  write_safetensors(f / "batch.safetensors",
                    {{input, HostTensor::of<float>({2, 1, 28, 28}, std::vector<float>(2 * 28 * 28, 0.5f))},
                     {"label", HostTensor::of<int64_t>({2}, {3, 7})}},
                    {});
  RunSpec spec;
  spec.model.model = f / "m.onnx";
  spec.data.train = f / "batch.safetensors";
  spec.output.output_dir = f / "run";
  spec.objective.loss = {"cross_entropy"};
  spec.schedule.max_steps = 1;
  spec.device.device = "cpu";
  std::string said;
  Host host;
  host.log = Log([&](Level, const std::string& text) { said += text + "\n"; });
  const auto told = [&] {
    said.clear();
    train(*prepare(spec, host));
    return said.find("weights are drawn") != std::string::npos;
  };
  CHECK(told());
  CHECK_FALSE(never_trained(*import_model(f / "run/model.onnx").doc));
  spec.model.model = f / "run/model.onnx";
  spec.output.output_dir = f / "again";
  CHECK_FALSE(told());
  spec.model.model = f / "m.onnx";
  spec.optimization.lr = 1e-3;
  spec.output.output_dir = f / "faster";
  CHECK_FALSE(told());
}

TEST_CASE("LeNet takes other kernels, and refuses those that leave nothing of the image") {
  const TempDir f;
  const std::string book =
      R"({"channels": [20, 50], "kernels": [3, 5], "padding": [0, 0], "hidden": [128], "activation": "relu"})";
  // The network of Dive into Deep Learning, 13.5. Its layers have 20 * 9 + 20, 50 * 20 * 25 + 50, 800 * 128 + 128 and
  // 128 * 10 + 10 parameters.
  CHECK(create_model({.model = "lenet", .config = book}, f / "book.onnx").parameters == 129'068);
  CHECK(text_of(error_of([&] {
          create_model({.model = "lenet", .config = R"({"kernels": [5, 15]})"}, f / "m.onnx");
        })).find("28 x 28 is too small for conv2") != std::string::npos);
  CHECK(text_of(error_of([&] {
          create_model({.model = "lenet", .config = R"({"padding": [-1, 0]})"}, f / "m.onnx");
        })).find("from 0 to") != std::string::npos);
}

TEST_CASE("a checkpoint's tokenizer files go with it, there and back") {
  const TempDir f;
  copy_checkpoint("bert_classifier", f);
  const std::vector<std::string> names = {"merges.txt", "spm.model",           "tokenizer_config.json",
                                          "vocab.json", "chat_template.jinja", "preprocessor_config.json"};
  for (const std::string& name : names) std::ofstream(f / name) << "of " << name;
  std::ofstream(f / "README.md") << "not of the model";
  fs::create_directory(f / "onnx");
  convert_checkpoint({.model = f.path.string()}, f / "onnx/model.onnx");
  write_checkpoint(f / "onnx/model.onnx", f / "back");
  for (const char* const folder : {"onnx", "back"}) {
    for (const std::string& name : names) CHECK(read_file((f.path / folder / name).string()).text() == "of " + name);
    CHECK_FALSE(fs::exists(f.path / folder / "README.md"));
  }
}

TEST_CASE("a head that the checkpoint lacks is drawn, and said") {
  const TempDir f;
  std::string said;
  const Log log([&](Level, const std::string& text) { said += text + "\n"; });
  convert_checkpoint({.model = test::test_data("models/bert_base"), .head = "token_classification"}, f / "m.onnx", log);
  CHECK_THAT(said, ContainsSubstring("classifier.weight, classifier.bias"));
}

TEST_CASE("a checkpoint that is not what it says is refused, and nothing is written") {
  const TempDir f;
  copy_checkpoint("bert_classifier", f);
  nlohmann::json config = config_in(f);
  const auto with = [&](const std::string& key, nlohmann::json value) {
    nlohmann::json j = config;
    j[key] = std::move(value);
    std::ofstream(f / "config.json") << j;
    return refusal(f);
  };
  CHECK_THAT(with("model_type", "brt"), ContainsSubstring("'brt'") && ContainsSubstring("did you mean 'bert'?"));
  CHECK_THAT(with("num_hidden_layers", 3),
             ContainsSubstring("bert.encoder.layer.2.") && ContainsSubstring("no tensor"));
  CHECK_THAT(with("intermediate_size", 31),
             ContainsSubstring("[32,16]") && ContainsSubstring("[31,16] by config.json"));
  CHECK_THAT(with("hidden_size", "wide"), ContainsSubstring("hidden_size is \"wide\""));
  CHECK_THAT(with("num_attention_heads", 3), ContainsSubstring("it does not divide hidden_size"));
  CHECK_THAT(with("hidden_act", "mish"), ContainsSubstring("'mish'"));
  CHECK_THAT(with("position_embedding_type", "relative_key"), ContainsSubstring("only 'absolute' is built"));
  CHECK_THAT(with("architectures", {"BertForNextSentencePrediction"}),
             ContainsSubstring("BertForNextSentencePrediction"));
  std::ofstream(f / "config.json") << config;
  fs::rename(f / "model.safetensors", f / "pytorch_model.bin");
  CHECK_THAT(refusal(f), ContainsSubstring("no model.safetensors") && ContainsSubstring("pickle"));
  fs::remove(f / "config.json");
  CHECK_THAT(refusal(f), ContainsSubstring("config.json"));
}

TEST_CASE("a checkpoint in parts is read by its index") {
  const TempDir f;
  copy_checkpoint("bert_classifier", f);
  const SafeTensors whole = read_safetensors(f / "model.safetensors");
  std::vector<NamedTensor> parts[2];
  nlohmann::json map;
  for (size_t i = 0; i < whole.tensors.size(); ++i) {
    parts[i % 2].push_back(whole.tensors[i]);
    map[whole.tensors[i].name] = i % 2 ? "b.safetensors" : "a.safetensors";
  }
  write_safetensors(f / "a.safetensors", parts[0]);
  write_safetensors(f / "b.safetensors", parts[1]);
  fs::remove(f / "model.safetensors");
  std::ofstream(f / "model.safetensors.index.json") << nlohmann::json{{"weight_map", map}};
  convert_checkpoint({.model = f.path.string()}, f / "m.onnx");
  const TempDir other;
  convert_checkpoint({.model = test::test_data("models/bert_classifier")}, other / "m.onnx");
  CHECK(read_file(f / "m.onnx").text() == read_file(other / "m.onnx").text());
  fs::remove(f / "b.safetensors");
  CHECK_THAT(text_of(error_of([&] { convert_checkpoint({.model = f.path.string()}, f / "n.onnx"); })),
             ContainsSubstring("b.safetensors"));
}

TEST_CASE("norms of a checkpoint may be called gamma and beta") {
  const TempDir f, other;
  copy_checkpoint("bert_classifier", f);
  std::vector<NamedTensor> tensors = read_safetensors(f / "model.safetensors").tensors;
  int renamed = 0;
  for (NamedTensor& t : tensors) {
    for (const auto& [now, old] :
         {std::pair{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}}) {
      const size_t at = t.name.find(now);
      if (at == std::string::npos) continue;
      t.name.replace(at, std::string::npos, old);
      ++renamed;
    }
  }
  CHECK(renamed == 10);  // LayerNorm parameters: those of the embeddings, and two norms of each layer
  write_safetensors(f / "model.safetensors", tensors);
  convert_checkpoint({.model = f.path.string()}, f / "m.onnx");
  convert_checkpoint({.model = test::test_data("models/bert_classifier")}, other / "m.onnx");
  CHECK(read_file(f / "m.onnx").text() == read_file(other / "m.onnx").text());
}

TEST_CASE("new weights have the deviations of transformers' initialization") {
  const TempDir f;
  create_model({.model = "gpt2",
                .config = R"({"n_embd": 64, "n_layer": 8, "n_head": 2, "vocab_size": 90, "n_positions": 32,
                              "initializer_range": 0.05})",
                .head = "causal_lm"},
               f / "m.onnx");
  for (const SourceValue& v : import_model(f / "m.onnx").graph.values) {
    if (!v.trainable || v.data.rank() < 2) continue;
    INFO(v.name);
    double squares = 0;
    for (const double w : v.data.to_doubles()) squares += w * w;
    // The deviation of projections that are added to the residual stream is divided by the square root of their number.
    const double want = v.name.find("c_proj") == std::string::npos ? 0.05 : 0.05 / std::sqrt(2.0 * 8);
    CHECK(std::sqrt(squares / static_cast<double>(v.data.numel())) == Catch::Approx(want).epsilon(0.06));
  }
}

TEST_CASE("keys of a new model's configuration are checked") {
  const TempDir f;
  const auto create = [&](const char* config) {
    return text_of(error_of([&] { create_model({.model = "bert", .config = config}, f / "m.onnx"); }));
  };
  CHECK_THAT(create(R"({"hiden_size": 16})"), ContainsSubstring("did you mean 'hidden_size'?"));
  CHECK_THAT(create("{"), ContainsSubstring("no JSON object"));
  CHECK_THAT(create(R"({"hidden_size": 0})"), ContainsSubstring("from 1 to"));
  CHECK_THAT(create(R"({"num_hidden_layers": 1000000000})"), ContainsSubstring("at most 1000 layers"));
  CHECK_THAT(text_of(error_of([&] {
               create_model({.model = "resnet18", .config = R"({"depths": [1000000000, 1, 1, 1]})"}, f / "m.onnx");
             })),
             ContainsSubstring("from 1 to 1000"));
  CHECK_THAT(text_of(error_of([&] { create_model({.model = "bertt"}, f / "m.onnx"); })),
             ContainsSubstring("did you mean 'bert'?"));
  CHECK_THAT(
      text_of(error_of([&] { write_checkpoint(test::test_data("zoo/lenet_relu_dyn18/model.onnx"), f / "back"); })),
      ContainsSubstring("E_NOT_CONVERTED"));
}

TEST_CASE("dropout of a table's network is written as nodes that act in training") {
  const TempDir f;
  const auto nodes = [&](const char* config) {
    create_model({.model = "tabular", .config = config}, f / "m.onnx");
    std::vector<SourceNode> out;
    for (const SourceNode& n : import_model(f / "m.onnx").graph.nodes) {
      if (n.op == "Dropout") out.push_back(n);
    }
    return out;
  };
  CHECK(nodes(R"({"hidden": [8, 4]})").empty());
  const std::vector<SourceNode> there = nodes(R"({"hidden": [8, 4], "dropout": 0.25, "embedding_dropout": 0.5})");
  std::vector<std::string> names;
  for (const SourceNode& n : there) names.push_back(n.name);
  CHECK(names == std::vector<std::string>{"/embeds/Dropout", "/layers.0/Dropout", "/layers.1/Dropout"});
  CHECK_THAT(text_of(error_of([&] { nodes(R"({"dropout": 1})"); })), ContainsSubstring("less than 1"));
}
