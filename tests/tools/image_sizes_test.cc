// --image_sizes through the verbs: predictions against onnxruntime after torchvision's preprocessing
// (tests/data/predict/images/make_image_sizes_golden.py), runs, and errors.
#include <catch2/catch_all.hpp>

#include "base/npz.h"
#include "data/image_store.h"
#include "data/images/decoder.h"
#include "data/transforms/geometry.h"
#include "importer/read/import.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

std::string made(const std::string& name) { return test_data("predict/images/" + name); }

// Cuts the boxes that image_sizes.json lists out of the picture, and writes them into folders of two classes.
json write_parts(const std::string& folder) {
  json parts = json::parse(bytes_of(made("image_sizes.json")));
  const Image picture = ImageStore({}).read(test_data("data/images/picture.png"), 3);
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::vector<int64_t> b = parts[i]["box"];
    const std::string dir = folder + (i % 2 ? "/odd" : "/even");
    fs::create_directories(dir);
    write_bytes(dir + "/" + std::to_string(i) + ".png", encode_png(cropped(picture, b[0], b[1], b[2], b[3])));
  }
  return parts;
}

std::vector<std::string> trained(const TempDir& f, std::vector<std::string> more) {
  std::vector<std::string> words = {made("sizes.onnx"),
                                    "--train",
                                    f / "train",
                                    "--num_labels",
                                    "2",
                                    "--device",
                                    "cpu",
                                    "--image_sizes",
                                    "12x18,18x12",
                                    "--lr",
                                    "0.02",
                                    "--lr_scheduler",
                                    "constant",
                                    "--transforms",
                                    "random_resized_crop 12 | horizontal_flip | normalize imagenet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<double> losses(const std::string& dir) {
  std::vector<double> out;
  for (const json& line : json_lines(dir + "/metrics.jsonl")) {
    if (line.contains("loss")) out.push_back(line.at("loss").get<double>());
  }
  return out;
}

}  // namespace

TEST_CASE("predictions at several sizes are onnxruntime's after torchvision's preprocessing", "[image_sizes]") {
  const TempDir f;
  const json want = write_parts(f / "parts");
  const std::string rows_at_once = GENERATE("1", "2", "64");
  const Said said = must_run({"predict", made("sizes.onnx"), "--inputs", f / "parts", "--out", f / "p.jsonl",
                              "--device", "cpu", "--eval_batch_size", rows_at_once});
  CHECK_THAT(said.err, ContainsSubstring("--image_sizes 12x18,12x12,18x12"));
  CHECK_THAT(said.err, ContainsSubstring("12x18: 5, 18x12: 4, 12x12: 1"));
  const std::vector<json> rows = json_lines(f / "p.jsonl");
  REQUIRE(rows.size() == want.size());
  std::string before;
  for (const json& row : rows) {
    const std::string path = row.at("path");
    CHECK(before < path);  // rows are in the order of the folder's files
    before = path;
    const json& p = want.at(static_cast<size_t>(std::stoi(fs::path(path).stem().string()))).at("probabilities");
    INFO(row.dump());
    for (size_t c = 0; c < 2; ++c)
      CHECK(row.at("probabilities").at(c ? "odd" : "even").get<double>() ==
            Catch::Approx(p[c].get<double>()).margin(2e-6));
  }
  // Another value of the setting, here a single size, overrides the recorded one.
  must_run({"predict", made("sizes.onnx"), "--inputs", f / "parts", "--out", f / "q.jsonl", "--device", "cpu",
            "--image_sizes", "12x12", "--quiet"});
  CHECK(json_lines(f / "q.jsonl").at(0).at("probability") != rows.at(0).at("probability"));
}

TEST_CASE("a run on several sizes is the same with any threads, resumed, and on two ranks", "[image_sizes]") {
  const TempDir f;
  write_parts(f / "train");
  const auto run = [&](const std::string& dir, std::vector<std::string> more) {
    more.insert(more.end(), {"--output_dir", f / dir, "--gradient_accumulation_steps", "2"});
    return must_run(trained(f, more));
  };
  const std::vector<std::string> whole = {"--max_steps",       "8", "--batch_size", "2",
                                          "--loading_threads", "1", "--val",        f / "train"};
  const Said said = run("whole", whole);
  CHECK_THAT(said.err, ContainsSubstring("12x18: 6, 18x12: 4"));
  run("parts", {"--max_steps", "4", "--batch_size", "2", "--loading_threads", "3", "--val", f / "train", "--quiet"});
  run("parts", {"--max_steps", "8", "--batch_size", "2", "--loading_threads", "2", "--val", f / "train", "--quiet",
                "--resume", "auto"});
  CHECK(bytes_of(f / "whole/model.onnx") == bytes_of(f / "parts/model.onnx"));
  run("ranks", {"--max_steps", "8", "--batch_size", "1", "--ranks", "2", "--val", f / "train", "--quiet"});
  const std::vector<double> one = losses(f / "whole"), two = losses(f / "ranks");
  REQUIRE(one.size() == two.size());
  REQUIRE(one.size() >= 2);
  for (size_t i = 0; i < one.size(); ++i) CHECK(two[i] == Catch::Approx(one[i]).epsilon(1e-5));

  // The file keeps its symbolic sides. Evaluation of the file and of the run's folder give the run's numbers.
  const Imported model = import_model(f / "whole/model.onnx");
  CHECK(model.graph.value(model.graph.inputs.at(0)).dims.at(2).value == -1);
  CHECK(model.graph.value(model.graph.inputs.at(0)).dims.at(3).value == -1);
  const json record = json::parse(bytes_of(f / "whole/run.json"));
  const json sizes = json::parse(R"(["12x18", "18x12"])");
  CHECK(record.dump().find(R"("image_sizes":)" + sizes.dump()) != std::string::npos);
  const double last = record.at("final_metrics").at("loss").get<double>();
  for (const char* of : {"whole", "whole/model.onnx"}) {
    const Said eval = must_run({"eval", f / of, "--val", f / "train", "--device", "cpu"});
    CHECK_THAT(eval.err, ContainsSubstring("12x18: 6, 18x12: 4"));
    CHECK(json::parse(eval.out).at("loss").get<double>() == Catch::Approx(last).epsilon(1e-6));
  }
  const Said other = run_verb(
      trained(f, {"--max_steps", "9", "--batch_size", "2", "--gradient_accumulation_steps", "2", "--val", f / "train",
                  "--resume", "auto", "--output_dir", f / "parts", "--image_sizes", "12x12", "--quiet"}));
  CHECK(other.code != 0);
  CHECK_THAT(other.fact, ContainsSubstring("image_sizes"));
}

TEST_CASE("masks of several sizes train a U-Net, and predicted ones have their images' size", "[image_sizes]") {
  const TempDir f;
  fs::create_directories(f / "images");
  fs::create_directories(f / "masks");
  // (width, height) of each image.
  const std::vector<std::pair<int, int>> sizes = {{20, 16}, {16, 20}, {33, 17}, {17, 33}};
  for (size_t i = 0; i < 8; ++i) {
    const auto [width, height] = sizes[i % 4];
    std::string picture = cat("P6 ", width, " ", height, " 255\n"), mask = cat("P5 ", width, " ", height, " 255\n");
    for (int p = 0; p < width * height; ++p) {
      const int c = (p % width + static_cast<int>(i)) % 12 < 6;
      for (int k = 0; k < 3; ++k) picture += static_cast<char>(k == c ? 220 : 30);
      mask += static_cast<char>(c);
    }
    write_bytes(f / cat("images/", i, ".ppm"), picture);
    write_bytes(f / cat("masks/", i, ".pgm"), mask);
  }
  must_run({"create", "unet", "--model_config", R"({"width": 4, "depth": 2})", "--out", f / "u.onnx", "--quiet"});
  const std::vector<std::string> words = {f / "u.onnx", "--train",      f / "images",  "--train_masks", f / "masks",
                                          "--val",      f / "images",   "--val_masks", f / "masks",     "--lr",
                                          "0.02",       "--batch_size", "2",           "--device",      "cpu"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  const Said said = must_run(with({"--image_sizes", "16x20,20x16,16x32,32x16", "--max_steps", "60", "--output_dir",
                                   f / "run", "--require", "miou>=0.8"}));
  CHECK_THAT(said.err, ContainsSubstring("16x32: 2, 32x16: 2, 16x20: 2, 20x16: 2"));
  must_run({"eval", f / "run", "--val", f / "images", "--val_masks", f / "masks", "--device", "cpu", "--quiet",
            "--require", "miou>=0.8"});
  must_run({"predict", f / "run", "--inputs", f / "images", "--out", f / "p/", "--device", "cpu", "--quiet"});
  for (size_t i = 0; i < 8; ++i) {
    const std::string path = f / cat("p/", i, ".png");
    const Image mask = decode_image({bytes_of(path), path, true});
    CHECK(mask.width == sizes[i % 4].first);
    CHECK(mask.height == sizes[i % 4].second);
  }
  const Said array =
      run_verb({"predict", f / "run", "--inputs", f / "images", "--out", f / "p.npz", "--device", "cpu"});
  CHECK(array.id == "E_IMAGE_SIZE");
  const Said odd = run_verb(with({"--image_sizes", "16x20,18x20", "--output_dir", f / "bad", "--quiet"}));
  CHECK(odd.id == "E_IMAGE_SIZES");
  CHECK(odd.code == 2);
  CHECK_THAT(odd.fact, ContainsSubstring("18x20"));
  CHECK(!fs::exists(f / "bad/model.onnx"));
}

TEST_CASE("sizes that cannot be are refused, and --check_data counts the nearest", "[image_sizes]") {
  const TempDir f;
  write_parts(f / "train");
  const auto sizes = [&](const std::string& text) {
    return std::vector<std::string>{made("sizes.onnx"), "--train", f / "train", "--image_sizes", text,
                                    "--device",         "cpu",     "--quiet",   "--output_dir",  f / "run"};
  };
  const std::string bad = GENERATE("0x10", "12", "12x", "axb", "12x12x12", "99999x1", "12x18,,12x12");
  const Said said = run_verb(sizes(bad));
  CHECK(said.code == 2);
  CHECK(said.id == "E_USAGE");
  CHECK_THAT(said.fact, ContainsSubstring("--image_sizes"));
  const Said twice = run_verb(sizes("12x12,18x12,12x12"));
  CHECK(twice.code == 2);
  CHECK(twice.id == "E_IMAGE_SIZES");
  CHECK_THAT(twice.fact, ContainsSubstring("12x12 twice"));
  const Said fixed = run_verb({"predict", made("classes.onnx"), "--inputs", f / "train", "--out", f / "p.csv",
                               "--image_sizes", "12x12,12x18", "--device", "cpu", "--quiet"});
  CHECK(fixed.code == 2);
  CHECK(fixed.id == "E_IMAGE_SIZES");
  CHECK_THAT(fixed.fact, ContainsSubstring("3 channels, 12 x 12"));
  const json j = json::parse(must_run({made("sizes.onnx"), "--train", f / "train", "--image_sizes", "12x18,18x12,8x8",
                                       "--check_data", "--quiet"})
                                 .out);
  CHECK(j["files"][0]["images"]["image_sizes"] == json::parse(R"({"12x18": 5, "18x12": 4, "8x8": 1})"));
}
