// Model folders for every verb, and models whose task follows neither from a flag nor from their structure.
#include <catch2/catch_all.hpp>

#include "base/safetensors.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

// Writes four rows for kMlp.
void write_rows(const std::string& path) {
  HostTensor x = HostTensor::empty(DType::f32, {12, 4}), label = HostTensor::empty(DType::i64, {12});
  for (int64_t i = 0; i < 48; ++i) x.as_mutable<float>()[i] = static_cast<float>(i * 7 % 11) * 0.1f;
  for (int64_t i = 0; i < 12; ++i) label.as_mutable<int64_t>()[i] = i % 2;
  write_safetensors(path, {{"x", x}, {"label", label}});
}

std::string model(const TempDir& f, const std::string& name) {
  fs::create_directories(fs::path(f / name).parent_path());
  return save(f, parse(kMlp), name);
}

}  // namespace

TEST_CASE("every verb takes a folder for the model in it, and says which file it took", "[folder]") {
  const TempDir f;
  const std::string inside = GENERATE(std::string("model.onnx"), std::string("onnx/model.onnx"),
                                      std::string("network.onnx"), std::string("onnx/network.onnx"));
  model(f, "m/" + inside);
  write_rows(f / "d.safetensors");
  const auto took = [&](std::vector<std::string> words) {
    INFO(words[0]);
    const Said s = must_run(words);
    const std::string line = "model: " + f.path.string() + "/m/" + inside;
    const size_t first = s.err.find(line);
    REQUIRE(first != std::string::npos);
    CHECK(s.err.find(line, first + 1) == std::string::npos);  // the line occurs once
  };
  took({"check", f / "m"});
  took({"plan", f / "m"});
  took({"grad", f / "m", "--inputs", f / "d.safetensors", "--out", f / "g.safetensors"});
  took({"predict", f / "m", "--inputs", f / "d.safetensors", "--out", f / "p.npz", "--device", "cpu"});
  took({"eval", f / "m", "--val", f / "d.safetensors", "--loss", "cross_entropy", "--device", "cpu"});
  took({"export", f / "m", "--out", f / "e.onnx"});
  took({"bench", f / "m", "--timed_steps", "1", "--device", "cpu"});
  took({f / "m", "--train", f / "d.safetensors", "--max_steps", "1", "--batch_size", "4", "--device", "cpu",
        "--output_dir", f / "run"});
  CHECK(bytes_of(f / "e.onnx") == parse(kMlp).SerializeAsString());
  const Said s = must_run({"check", f / "run"});  // a run's folder is a model folder, too
  CHECK_THAT(s.err, ContainsSubstring("run/model.onnx"));
}

TEST_CASE("training goes on from a run's folder with the tokenizer that the run read", "[folder]") {
  const TempDir f;
  save(f, parse("<ir_version: 8, opset_import: [\"\" : 13]> g (int64[B,S] input_ids) => (float[B,2] logits) "
                "<float[7,2] e = {0,0,0,0,0,0,0,0,0,0,1,0,0,1}> { x = Gather (e, input_ids) "
                "logits = ReduceMean <axes = [1], keepdims = 0> (x) }"));
  fs::create_directories(f.path / "words");
  write_bytes(f / "words/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nyes\nno\n");
  write_bytes(f / "t.csv", "text,label\nyes,0\nno,1\nyes yes,0\nno no,1\n");
  const std::vector<std::string> rest = {"--train",     f / "t.csv", "--text_columns", "text",
                                         "--max_steps", "1",         "--device",       "cpu"};
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.end(), rest.begin(), rest.end());
    return must_run(words);
  };
  run({f / "model.onnx", "--vocab", f / "words/vocab.txt", "--output_dir", f / "run"});
  CHECK_THAT(run({f / "run", "--output_dir", f / "more"}).err, ContainsSubstring("words/vocab.txt"));
  run({"bench", f / "run", "--timed_steps", "1"});
}

TEST_CASE("a folder with several models, or none, says what can be done", "[folder]") {
  const TempDir f;
  const auto refused = [&](const std::string& folder) {
    const Said s = run_verb({"check", f / folder});
    INFO(s.fact << " / " << s.hint);
    CHECK(s.id == "E_RUN");
    return s;
  };
  model(f, "two/encoder_model.onnx");
  model(f, "two/decoder_model.onnx");
  CHECK_THAT(refused("two").hint, ContainsSubstring("decoder_model.onnx") && ContainsSubstring("encoder_model.onnx"));
  model(f, "two/model.onnx");
  must_run({"check", f / "two"});
  fs::create_directories(f / "hf");
  write_bytes(f / "hf/config.json", R"({"model_type": "bert", "architectures": ["BertModel"]})");
  write_bytes(f / "hf/model.safetensors", "");
  CHECK_THAT(refused("hf").hint,
             ContainsSubstring("convert '" + (f / "hf") + "' --out '" + (f / "hf") + "/model.onnx'"));
  write_bytes(f / "hf/config.json", R"({"model_type": "a_type_of_its_own"})");
  CHECK_THAT(refused("hf").hint, ContainsSubstring("optimum-cli export onnx --model '" + (f / "hf")));
  write_bytes(f / "hf/adapter_config.json", "{}");
  CHECK_THAT(refused("hf").hint, ContainsSubstring("eval BASE --adapter"));
  fs::create_directories(f / "saved");
  write_bytes(f / "saved/saved_model.pb", "x");
  CHECK_THAT(refused("saved").hint, ContainsSubstring("--saved-model"));
  fs::create_directories(f / "vino");
  write_bytes(f / "vino/openvino_model.xml", "<?xml version=\"1.0\"?>\n<net name=\"m\">");
  CHECK_THAT(refused("vino").fact, ContainsSubstring("OpenVINO"));
  fs::create_directories(f / "stopped/checkpoints");
  CHECK_THAT(refused("stopped").hint, ContainsSubstring("export"));
  fs::create_directories(f / "empty");
  CHECK_THAT(refused("empty").fact, ContainsSubstring("no model.onnx"));
}

TEST_CASE("a folder of the Hugging Face cache is its snapshot", "[folder]") {
  const TempDir f;
  model(f, "models--o--n/blobs/aaa");
  fs::create_directories(f / "models--o--n/snapshots/c0/onnx");
  fs::create_directories(f / "models--o--n/snapshots/c1");
  fs::create_directories(f / "models--o--n/refs");
  fs::create_symlink("../../../blobs/aaa", f / "models--o--n/snapshots/c0/onnx/model.onnx");
  CHECK(run_verb({"check", f / "models--o--n"}).id == "E_RUN");
  write_bytes(f / "models--o--n/refs/main", "c0");
  CHECK_THAT(must_run({"check", f / "models--o--n"}).err, ContainsSubstring("snapshots/c0/onnx/model.onnx"));
}

TEST_CASE("a detector is not trained as a classifier unless flags say so", "[folder]") {
  const TempDir f;
  fs::create_directories(f / "img/a");
  fs::create_directories(f / "img/b");
  for (int i = 0; i < 6; ++i) {
    std::string picture = "P6 8 8 255\n";
    for (int k = 0; k < 192; ++k) picture += static_cast<char>((k * 31 + i * 57) % 256);
    write_bytes(f / ((i % 2 ? "img/a/" : "img/b/") + std::to_string(i) + ".ppm"), picture);
  }
  save(f, parse(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,8,8] x) => (float[N,6,64] y)
    <float[4,3,1,1] v = {0.3,-0.2,0.5,0.1,0.7,-0.4,0.2,0.9,-0.6,0.8,-0.1,0.4},
     float[6,4,1,1] w = {0.1,-0.2,0.3,0.4,0.5,-0.6,0.7,0.8,-0.9,1,0.2,0.3,-0.4,0.5,0.6,-0.7,0.8,0.9,0.1,0.2,0.5,0.1,-0.3,0.6},
     int64[3] shape = {0,6,64}>
    { h = Conv (x, v)  r = Relu (h)  c = Conv (r, w)  y = Reshape (c, shape) })"),
       "d.onnx");
  const std::vector<std::string> words = {
      f / "d.onnx",        "--train", f / "img",      "--max_steps", "1",           "--batch_size", "2",
      "--device",          "cpu",     "--output_dir", f / "run",     "--overwrite", "--transforms", "to_float",
      "--eval_transforms", "to_float"};
  const Said asked = run_verb(words);
  INFO(asked.fact);
  CHECK(asked.id == "E_LOSS_UNKNOWN");
  CHECK_THAT(asked.fact, ContainsSubstring("'y'") && ContainsSubstring("detector"));
  for (const char* flag : {"--loss", "--task", "--output", "--num_labels", "--head_from"})
    CHECK_THAT(asked.hint, ContainsSubstring(flag));
  std::vector<std::string> told = words;
  told.insert(told.end(), {"--task", "classification"});
  must_run(told);
  CHECK_THAT(must_run({"check", f / "d.onnx"}).out, ContainsSubstring("a loss is asked for"));
  // If the targets are tensors of the data, only a loss must be given.
  const HostTensor x = HostTensor::zeros(DType::f32, {4, 3, 8, 8}), y = HostTensor::zeros(DType::f32, {4, 6, 64});
  write_safetensors(f / "t.safetensors", {{"x", x}, {"label", y}});
  must_run({f / "d.onnx", "--train", f / "t.safetensors", "--loss", "mse", "--max_steps", "1", "--device", "cpu",
            "--output_dir", f / "run", "--overwrite"});
}
