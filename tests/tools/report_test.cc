// Reports of a run: worst samples, which must agree with `predict` and the metrics; event files; pages during the run.
// They do not change the model.
#include <catch2/catch_all.hpp>
#include <filesystem>

#include "base/file.h"
#include "data/images/decoder.h"
#include "run/folder/run_files.h"
#include "run/report/event_file.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using nlohmann::json;

namespace {

// Writes texts of two words, some with a tag at the end. The class is the first word, except in every seventh row.
void write_texts(const std::string& path, int rows) {
  const char* const words[] = {"red", "green", "blue"};
  std::string out = "id,text,label\n";
  for (int i = 0; i < rows; ++i)
    out += std::to_string(i) + ",\"" + words[i % 3] + " " + words[i * 7 % 11 % 3] +
           (i % 5 ? "" : ", \"\"</script>\"\"\n") + "\"," + words[i % 7 ? i % 3 : (i + 1) % 3] + "\n";
  write_bytes(path, out);
}

std::vector<std::string> text_run(const TempDir& f, const std::string& out, std::vector<std::string> more) {
  if (!std::filesystem::exists(f / "bert.onnx")) {
    write_bytes(f / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nred\ngreen\nblue\n");
    write_texts(f / "train.csv", 48);
    write_texts(f / "val.csv", 42);
    must_run({"create", "bert", "--model_head", "none", "--out", f / "bert.onnx", "--model_config",
              R"({"vocab_size": 8, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                  "intermediate_size": 16})"});
  }
  std::vector<std::string> words = {
      f / "bert.onnx",  "--train", f / "train.csv", "--val", f / "val.csv",  "--vocab", f / "vocab.txt",
      "--text_columns", "text",    "--lr",          "0.01",  "--batch_size", "8",       "--quiet",
      "--output_dir",   f / out};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

json samples_of(const std::string& folder) { return json::parse(bytes_of(folder + "/samples.json")); }

}  // namespace

TEST_CASE("the worst errors of a run of texts are rows that its model predicts wrong, with their text") {
  const TempDir f;
  must_run(text_run(f, "run", {"--epochs", "4"}));
  must_run({"predict", f / "run/model.onnx", "--inputs", f / "val.csv", "--vocab", f / "vocab.txt", "--out",
            f / "predicted.jsonl"});
  const std::vector<json> predicted = json_lines(f / "predicted.jsonl");
  std::map<std::string, const json*> wrong;  // key: "TEXT|LABEL"
  size_t wrong_rows = 0;
  for (const json& row : predicted) {
    if (row["label"] == row["predicted_label"]) continue;
    ++wrong_rows;
    wrong[row["text"].get<std::string>() + "|" + row["label"].get<std::string>()] = &row;
  }
  const json samples = samples_of(f / "run");
  REQUIRE(wrong_rows > 0);
  CHECK(samples["worst"].size() == std::min<size_t>(16, wrong_rows));
  double last = std::numeric_limits<double>::infinity();
  for (const json& s : samples["worst"]) {
    CAPTURE(s.dump());
    REQUIRE(s["text"].size() == 1);
    const auto row = wrong.find(s["text"][0][1].get<std::string>() + "|" + s["label"].get<std::string>());
    REQUIRE(row != wrong.end());
    CHECK((*row->second)["predicted_label"] == s["predicted"]);
    // The tolerance allows for batches of other rows, which change the order of sums.
    CHECK(s["probability"].get<double>() == Catch::Approx((*row->second)["probability"].get<double>()).margin(1e-5));
    CHECK(s["error"].get<double>() ==
          Catch::Approx(-std::log((*row->second)["probabilities"][s["label"].get<std::string>()].get<double>()))
              .margin(1e-4));
    CHECK(s["error"].get<double>() <= last);
    last = s["error"];
  }
  CHECK(bytes_of(f / "run/report.html").find("</script>\"") == std::string::npos);
}

TEST_CASE("the worst texts of a language model are those that predict tells the largest loss of") {
  const TempDir f;
  const std::string recipe = source_root() + "/models/language_model";
  must_run({"create", "gpt2", "--out", f / "gpt2.onnx", "--model_config",
            R"({"vocab_size": 2000, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64})"});
  for (const std::string packing : {"none", "wrapped"}) {
    must_run({f / "gpt2.onnx",
              "--task",
              "language",
              "--data_format",
              "lines",
              "--text_columns",
              "text",
              "--train",
              recipe + "/sample/train.txt",
              "--val",
              recipe + "/sample/dev.txt",
              "--tokenizer",
              recipe,
              "--max_seq_len",
              "32",
              "--lr",
              "0.01",
              "--max_steps",
              "4",
              "--packing",
              packing,
              "--output_dir",
              f / packing,
              "--quiet"});
  }
  must_run({"predict", f / "none/model.onnx", "--inputs", recipe + "/sample/dev.txt", "--tokenizer", recipe, "--out",
            f / "predicted.jsonl"});
  std::vector<json> rows = json_lines(f / "predicted.jsonl");
  std::sort(rows.begin(), rows.end(), [](const json& a, const json& b) { return a["loss"] > b["loss"]; });
  const json worst = samples_of(f / "none")["worst"];
  REQUIRE(worst.size() == 16);
  for (size_t i = 0; i < worst.size(); ++i) {
    CAPTURE(worst[i].dump(), rows[i].dump());
    CHECK(worst[i]["error"].get<double>() == Catch::Approx(rows[i]["loss"].get<double>()).margin(1e-4));
    const std::string text = worst[i]["text"]["text"];  // the text is truncated to the tokens that the model reads
    REQUIRE(text.size() > 20);
    CHECK(std::any_of(rows.begin(), rows.end(), [&](const json& row) {
      return row["text"].get<std::string>().starts_with(text) &&
             std::abs(row["loss"].get<double>() - worst[i]["error"].get<double>()) < 1e-4;
    }));
    CHECK(text.find(worst[i]["label"].get<std::string>()) != std::string::npos);
  }
  CHECK(samples_of(f / "wrapped")["worst"].size() == 16);
}

TEST_CASE("the worst pairs of a retrieval run are those whose candidate ranks worst among the embeddings of predict") {
  const TempDir f;
  const char* const words[] = {"red ", "green ", "blue "};
  std::string table = "a,b\n";
  for (int i = 0; i < 27; ++i) {
    const int digits[] = {i / 9, i / 3 % 3, i % 3};
    table += std::string(words[digits[0]]) + words[digits[1]] + words[digits[2]] + ",";
    table += std::string(words[digits[2]]) + words[digits[1]] + words[(digits[0] + 1) % 3] + "\n";
  }
  write_bytes(f / "pairs.csv", table);
  std::vector<std::string> flags = text_run(f, "run", {"--epochs", "1"});
  for (std::string& w : flags) {
    if (w == f / "train.csv" || w == f / "val.csv") w = f / "pairs.csv";
    if (w == "text") w = "a,b";
  }
  flags.insert(flags.end(), {"--loss", "multiple_negatives", "--task", "retrieval"});
  must_run(flags);
  must_run({"predict", f / "run/model.onnx", "--inputs", f / "pairs.csv", "--vocab", f / "vocab.txt", "--out",
            f / "predicted.jsonl"});
  const std::vector<json> rows = json_lines(f / "predicted.jsonl");
  const auto cosine = [&](const json& a, const json& b) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      ab += a[i].get<double>() * b[i].get<double>();
      aa += a[i].get<double>() * a[i].get<double>();
      bb += b[i].get<double>() * b[i].get<double>();
    }
    return ab / std::sqrt(aa * bb);
  };
  const json samples = samples_of(f / "run");
  REQUIRE(samples["task"] == "retrieval");
  REQUIRE(!samples["worst"].empty());
  double last = 28;
  for (const json& s : samples["worst"]) {
    CAPTURE(s.dump());
    REQUIRE(s["text"].size() == 1);
    const auto own = std::find_if(rows.begin(), rows.end(), [&](const json& r) { return r["a"] == s["text"][0][1]; });
    REQUIRE(own != rows.end());
    CHECK((*own)["b"] == s["label"]);
    const double mine = cosine((*own)["a_embedding"], (*own)["b_embedding"]);
    // Bounds of the rank: `surely` counts values that are clearly larger. `perhaps` also counts nearly equal values,
    // which fp32 may order differently.
    int surely = 1, perhaps = 1;
    double nearest = -1, told = -1;
    for (const json& other : rows) {
      if (other["a"] == (*own)["a"]) continue;
      const double c = cosine((*own)["a_embedding"], other["b_embedding"]);
      surely += c > mine + 1e-6;
      perhaps += c > mine - 1e-6;
      nearest = std::max(nearest, c);
      if (other["b"] == s["predicted"]) told = c;
    }
    CHECK(s["error"].get<int>() >= surely);
    CHECK(s["error"].get<int>() <= perhaps);
    CHECK(told == Catch::Approx(nearest).margin(1e-6));
    CHECK(s["error"].get<double>() <= last);
    last = s["error"];
  }
}

TEST_CASE("the worst errors of a share held out and of limited data are those of their own rows") {
  const TempDir f;
  std::vector<std::string> words = text_run(f, "run", {"--epochs", "1", "--val_split", "0.5", "--limit_train", "40"});
  words.erase(std::find(words.begin(), words.end(), "--val"), std::find(words.begin(), words.end(), "--vocab"));
  must_run(words);
  const json samples = samples_of(f / "run");
  REQUIRE(!samples["worst"].empty());
  const std::string table = bytes_of(f / "train.csv");
  for (const json& s : samples["worst"]) {
    std::string text = s["text"][0][1].get<std::string>();
    for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '"');
    CAPTURE(text);
    CHECK(table.find("\"" + text + "\"," + s["label"].get<std::string>() + "\n") != std::string::npos);
  }
}

TEST_CASE("overlays of masks are pictures, and their errors are the metrics'") {
  const TempDir f;
  const std::string data = source_root() + "/models/unet/sample/";
  must_run({"create", "unet", "--out", f / "unet.onnx", "--model_config",
            R"({"in_chans": 1, "num_classes": 2, "width": 2, "depth": 1})"});
  must_run({f / "unet.onnx", "--config", source_root() + "/models/unet/config.json", "--train", data + "train_image",
            "--train_masks", data + "train_mask", "--val", data + "val_image", "--val_masks", data + "val_mask",
            "--mask_values", "0,255", "--max_steps", "2", "--output_dir", f / "run", "--quiet"});
  const json samples = samples_of(f / "run"), run = json::parse(bytes_of(f / "run/run.json"));
  REQUIRE(samples["always"].size() == 4);  // the validation data have 4 images
  double wrong = 0;
  for (const json& s : samples["always"]) {
    wrong += s["error"].get<double>() / 4;
    for (const char* picture : {"picture", "label_mask", "predicted_mask"})
      CHECK(s[picture].get<std::string>().starts_with("data:image/png;base64,iVBORw0KGgo"));
  }
  CHECK(wrong == Catch::Approx(1 - run["final_metrics"]["accuracy"].get<double>()).margin(1e-9));
  CHECK(samples["worst"].empty());  // all samples are already in "always"
  CHECK(std::filesystem::file_size(f / "run/samples.json") < 3000000);
}

TEST_CASE("event files and a served report leave a run's model as it is") {
  const TempDir f;
  must_run(text_run(f, "plain", {"--epochs", "2"}));
  const Said served = must_run(text_run(f, "served", {"--epochs", "2", "--tensorboard", "--serve", "0"}));
  CHECK(served.err.find("the report is shown live at http://127.0.0.1:") != std::string::npos);
  CHECK(bytes_of(f / "served/model.onnx") == bytes_of(f / "plain/model.onnx"));
  CHECK(std::filesystem::exists(f / ("served/" + std::string(kEventFilePrefix) + "000000000001")));
  const json run = json::parse(bytes_of(f / "served/run.json"));
  CHECK(run["config"].contains("tensorboard"));
  CHECK_FALSE(run["config"].contains("serve"));
}

TEST_CASE("a resumed run's event files have each step once, a replaced run's are gone") {
  const TempDir f;
  const std::vector<std::string> words = {"--max_steps",  "6", "--save_total_limit", "0", "--save_steps", "3",
                                          "--eval_steps", "2", "--tensorboard"};
  must_run(text_run(f, "run", words));
  const std::string first = f / ("run/" + std::string(kEventFilePrefix) + "000000000001"),
                    second = f / ("run/" + std::string(kEventFilePrefix) + "000000000004");
  const std::string whole = bytes_of(first);
  std::vector<std::string> more = words;
  more.insert(more.end(), {"--resume", f / "run/checkpoints/checkpoint-3"});
  must_run(text_run(f, "run", more));
  CHECK(bytes_of(first) == kept_records(whole, 4));
  CHECK(std::filesystem::exists(second));
  more = words;
  more.push_back("--overwrite");
  must_run(text_run(f, "run", more));
  CHECK_FALSE(std::filesystem::exists(second));
  CHECK(bytes_of(first).size() == whole.size());
}
