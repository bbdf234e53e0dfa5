// Embeddings: convert, predict, eval and training use the pooling that sentence-transformers' files define
// (tests/data/sentences/make_sentences.py).
#include <catch2/catch_all.hpp>
#include <filesystem>

#include "base/npz.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

std::string sentences(const std::string& name) { return test_data("sentences/" + name); }

std::vector<double> wanted(const std::string& mode) {
  return find_tensor(read_npz(sentences("embeddings.npz")), mode)->to_doubles();
}

void copy_in(const std::string& from, const std::string& to) {
  std::filesystem::create_directories(std::filesystem::path(to).parent_path());
  std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
}

// Writes modules.json and the pooling's configuration, as version 6 writes them; old: as earlier versions.
void write_modules(const std::string& folder, const std::string& mode, bool normalize = false, bool old = false,
                   const std::string& more = {}) {
  std::filesystem::create_directories(folder + "/1_Pooling");
  const std::string package =
      old ? "sentence_transformers.models." : "sentence_transformers.sentence_transformer.modules.x.";
  json modules = {{{"idx", 0}, {"path", ""}, {"type", package + "Transformer"}},
                  {{"idx", 1}, {"path", "1_Pooling"}, {"type", package + "Pooling"}}};
  if (!more.empty()) modules.push_back({{"idx", 2}, {"path", "2_" + more}, {"type", package + more}});
  if (normalize) modules.push_back({{"idx", 2}, {"path", "2_Normalize"}, {"type", package + "Normalize"}});
  write_bytes(folder + "/modules.json", modules.dump());
  json pooling = {{"embedding_dimension", 16}};
  if (!old) pooling["pooling_mode"] = json::parse(mode);
  if (old)
    pooling = {{"pooling_mode_cls_token", mode == "cls"},
               {"pooling_mode_mean_tokens", mode == "mean"},
               {"pooling_mode_max_tokens", mode == "max"}};
  write_bytes(folder + "/1_Pooling/config.json", pooling.dump());
}

struct Embedded {
  std::vector<double> values;
  std::string said;
};

Embedded embedded(const TempDir& f, const std::string& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {
      "predict", model,       "--task",         "retrieval", "--inputs", sentences("texts.csv"),
      "--out",   f / "e.npz", "--text_columns", "text",      "--device", "cpu"};
  words.insert(words.end(), more.begin(), more.end());
  const Said said = must_run(words);
  return {read_npz(f / "e.npz").at(0).tensor.to_doubles(), said.err};
}

// Compares embeddings that were computed in fp32: 16 numbers of size 1, from sums of at most 10 tokens.
void check_equal(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 2e-6);
}

}  // namespace

TEST_CASE("predict pools hidden states as the files beside the model say, or as --pooling says", "[sentences]") {
  const TempDir f;
  const std::string model = f / "model.onnx";
  copy_in(sentences("hidden.onnx"), model);
  copy_in(sentences("bert/vocab.txt"), f / "vocab.txt");
  const Embedded guess = embedded(f, model);
  check_equal(guess.values, wanted("mean"));
  CHECK_THAT(guess.said, ContainsSubstring("a guess: --pooling chooses another"));
  for (const auto& [mode, name] : {std::pair{"\"cls\"", "cls"},
                                   {"\"max\"", "max"},
                                   {"\"mean\"", "mean"},
                                   {"\"mean_sqrt_len_tokens\"", "mean_sqrt_len"},
                                   {"\"weightedmean\"", "weighted_mean"},
                                   {"\"lasttoken\"", "last"},
                                   {"[\"cls\", \"mean\"]", "cls+mean"}}) {
    INFO(name);
    write_modules(f.path.string(), mode);
    const Embedded e = embedded(f, model);
    check_equal(e.values, wanted(name));
    CHECK_THAT(e.said, ContainsSubstring("1_Pooling/config.json"));
  }
  write_modules(f.path.string(), "\"mean\"", true);
  check_equal(embedded(f, model).values, wanted("normalized"));
  check_equal(embedded(f, model, {"--pooling", "max"}).values, wanted("max"));
  write_modules(f.path.string(), "cls", false, true);
  check_equal(embedded(f, model).values, wanted("cls"));
  std::filesystem::create_directories(f / "onnx");  // the folder in which repositories keep their exports
  copy_in(model, f / "onnx/model.onnx");
  check_equal(embedded(f, f / "onnx/model.onnx", {"--vocab", f / "vocab.txt"}).values, wanted("cls"));
  write_modules(f.path.string(), "\"mean\"", false, false, "Dense");
  const std::vector<std::string> words = {
      "predict", model,       "--task",         "retrieval", "--inputs", sentences("texts.csv"),
      "--out",   f / "e.npz", "--text_columns", "text"};
  const Said dense = run_verb(words);
  CHECK(dense.id == "E_POOLING");
  CHECK_THAT(dense.fact, ContainsSubstring("Dense"));
  check_equal(embedded(f, model, {"--pooling", "mean"}).values, wanted("mean"));
}

TEST_CASE("eval and training pool as predict does", "[sentences]") {
  const TempDir f;
  copy_in(sentences("hidden.onnx"), f / "model.onnx");
  copy_in(sentences("bert/vocab.txt"), f / "vocab.txt");
  write_modules(f.path.string(), "\"max\"");
  const std::vector<double> e = wanted("max"), scores = {0.1, 0.9, 0.5, 0.3};
  double mse = 0;  // mse of the cosines of each text and its partner in reversed row order
  for (size_t r = 0; r < 4; ++r) {
    double uv = 0, uu = 0, vv = 0;
    for (size_t i = 0; i < 16; ++i) {
      const double u = e[16 * r + i], v = e[16 * (3 - r) + i];
      uv += u * v;
      uu += u * u;
      vv += v * v;
    }
    mse += std::pow(uv / std::sqrt(uu * vv) - scores[r], 2) / 4;
  }
  const std::vector<std::string> data = {"--text_columns", "text,other", "--label_column", "score",
                                         "--loss",         "cosine_mse", "--device",       "cpu"};
  std::vector<std::string> words = {"eval", f / "model.onnx", "--val", sentences("texts.csv")};
  words.insert(words.end(), data.begin(), data.end());
  CHECK(std::abs(json::parse(must_run(words).out)["loss"].get<double>() - mse) < 1e-6);
  words = {f / "model.onnx", "--train", sentences("texts.csv"), "--val",  sentences("texts.csv"), "--lr", "0",
           "--max_steps",    "1",       "--output_dir",         f / "run"};
  words.insert(words.end(), data.begin(), data.end());
  must_run(words);
  CHECK(std::abs(json::parse(bytes_of(f / "run/run.json"))["final_metrics"]["loss"].get<double>() - mse) < 1e-6);
  check_equal(embedded(f, f / "run").values, wanted("max"));  // the run's model has the output
}

TEST_CASE("convert of a sentence-transformers folder writes the embedding as an output", "[sentences]") {
  const TempDir f;
  for (const char* name : {"config.json", "model.safetensors", "vocab.txt"})
    copy_in(sentences("bert/") + name, f / "st/" + name);
  write_modules(f / "st", "\"mean\"", true);
  must_run({"convert", f / "st", "--out", f / "m/model.onnx"});
  check_equal(embedded(f, f / "m/model.onnx").values, wanted("normalized"));
  CHECK(std::filesystem::exists(f / "m/1_Pooling/config.json"));
  check_equal(embedded(f, f / "m/model.onnx", {"--pooling", "cls"}).values, wanted("cls"));
  must_run({"convert", f / "m/model.onnx", "--out", f / "back"});
  CHECK(std::filesystem::exists(f / "back/modules.json"));
}

TEST_CASE("cosine_mse warns of scores that no cosine can be", "[sentences]") {
  const TempDir f;
  copy_in(sentences("hidden.onnx"), f / "model.onnx");
  copy_in(sentences("bert/vocab.txt"), f / "vocab.txt");
  write_bytes(f / "d.csv", "a,b,score\nthe film,a film,5\nit was,a night,0.2\n");
  const Said said = must_run({"eval", f / "model.onnx", "--val", f / "d.csv", "--text_columns", "a,b", "--label_column",
                              "score", "--loss", "cosine_mse", "--device", "cpu"});
  CHECK_THAT(said.err, ContainsSubstring("labels from 0 to 5") && ContainsSubstring("Divide the scores by 5"));
}
