// Images through the verbs: predictions against onnxruntime after torchvision's preprocessing
// (tests/data/predict/images/make_images_golden.py), and a run from class folders to the exported model.
#include <catch2/catch_all.hpp>

#include "base/npz.h"
#include "data/images/decoder.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

std::string pictures(const std::string& name) { return test_data("data/images/" + name); }
std::string made(const std::string& name) { return test_data("predict/images/" + name); }

// Writes gray pictures of two kinds, bright at the top or at the bottom, with noise.
void write_halves(const std::string& folder, int each, int first = 0) {
  for (int i = first; i < first + each; ++i) {
    for (const bool top : {false, true}) {
      std::string bytes = "P5 28 28 255\n";
      for (int y = 0; y < 28; ++y) {
        for (int x = 0; x < 28; ++x)
          bytes += static_cast<char>(((y < 14) == top ? 180 : 40) + (x * 7 + y * 13 + i * 29) % 32);
      }
      const std::string dir = folder + (top ? "/top" : "/bottom");
      fs::create_directories(dir);
      write_bytes(dir + "/" + std::to_string(i) + ".pgm", bytes);
    }
  }
}

std::vector<std::string> lenet(const TempDir& f, std::vector<std::string> more) {
  std::vector<std::string> words = {test_data("zoo/lenet_relu_dyn18/model.onnx"),
                                    "--train",
                                    f / "train",
                                    "--num_labels",
                                    "2",
                                    "--device",
                                    "cpu",
                                    "--lr",
                                    "0.003",
                                    "--batch_size",
                                    "8"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("predictions for images are onnxruntime's after torchvision's preprocessing", "[images]") {
  const json want = json::parse(bytes_of(made("golden.json")))["classes"];
  const TempDir f;
  for (const auto& [name, p] : want.items()) fs::copy_file(pictures(name), f / name);
  const Said said = must_run({"predict", made("classes.onnx"), "--inputs", f / "", "--out", f / "p.jsonl", "--device",
                              "cpu", "--eval_batch_size", "4"});
  CHECK(json::parse(said.out)["rows"] == want.size());
  const std::vector<json> rows = json_lines(f / "p.jsonl");
  REQUIRE(rows.size() == want.size());
  const std::vector<std::string> labels = {"ash", "birch", "cedar", "doum"};
  for (const json& row : rows) {
    INFO(row.dump());
    const json p = want.at(fs::path(row.at("path").get<std::string>()).filename().string());
    size_t best = 0;
    for (size_t c = 0; c < 4; ++c) {
      // The picture turned by EXIF is a JPEG, whose decoder may differ from Pillow's in the last bit.
      CHECK(row.at("probabilities").at(labels[c]).get<double>() == Catch::Approx(p[c].get<double>()).margin(1e-3));
      if (row.at("path").get<std::string>().find(".jpg") == std::string::npos)
        CHECK(row.at("probabilities").at(labels[c]).get<double>() == Catch::Approx(p[c].get<double>()).margin(2e-6));
      if (p[c] > p[best]) best = c;
    }
    CHECK(row.at("predicted_label") == labels[best]);
  }
  // The input is a table of files.
  write_bytes(f / "t.csv", "file,who\npicture.png,me\ngrey.png,you\n");
  must_run({"predict", made("classes.onnx"), "--inputs", f / "t.csv", "--image_column", "file", "--out", f / "t.jsonl",
            "--device", "cpu", "--quiet"});
  CHECK(json_lines(f / "t.jsonl")[1].at("who") == "you");
  CHECK(json_lines(f / "t.jsonl")[1].at("probability") ==
        json_lines(f / "p.jsonl").at(0).at("probability"));  // grey.png comes first in the folder
  const Said text = run_verb(
      {"predict", made("classes.onnx"), "--inputs", f / "t.csv", "--out", f / "x.csv", "--device", "cpu", "--quiet"});
  CHECK(text.id == "E_USAGE");
  CHECK_THAT(text.fact, ContainsSubstring("--image_column"));
}

TEST_CASE("predicted masks are images of their images' size", "[images]") {
  const TempDir f;
  const std::string inputs = pictures("picture.png") + "," + pictures("turned_6.jpg");
  must_run({"predict", made("masks.onnx"), "--inputs", inputs, "--out", f / "masks/", "--device", "cpu", "--quiet"});
  const auto mask = [](const std::string& path) { return decode_image({bytes_of(path), path, true}); };
  const Image exact = mask(f / "masks/picture.png"), want = mask(made("mask_picture.png"));
  CHECK(exact.width == want.width);
  CHECK(exact.data == want.data);
  const Image turned = mask(f / "masks/turned_6.png"), turned_want = mask(made("mask_turned_6.png"));
  REQUIRE(turned.data.size() == turned_want.data.size());
  size_t different = 0;  // a JPEG: a difference in the last bit may change a pixel's class
  for (size_t i = 0; i < turned.data.size(); ++i) different += turned.data[i] != turned_want.data[i];
  CHECK(different * 50 < turned.data.size());
  must_run({"predict", made("masks.onnx"), "--inputs", inputs, "--out", f / "p.jsonl", "--device", "cpu", "--quiet"});
  const json shares = json::parse(bytes_of(made("golden.json")))["masks"]["picture.png"];
  const json row = json_lines(f / "p.jsonl").at(0);
  for (size_t c = 0; c < 3; ++c)
    CHECK(row.at("share").at(std::to_string(c)).get<double>() == Catch::Approx(shares[c].get<double>()));
  must_run({"predict", made("masks.onnx"), "--inputs", inputs, "--out", f / "p.npz", "--device", "cpu", "--quiet"});
  CHECK(read_npz(f / "p.npz").at(0).tensor.dims() == Dims{2, 16, 20});
}

TEST_CASE("a folder of class folders trains, resumes, exports, is evaluated and predicted", "[images]") {
  const TempDir f;
  write_halves(f / "train", 20);
  write_halves(f / "val", 5, 50);
  const Said said = must_run(lenet(f, {"--val", f / "val", "--max_steps", "10", "--output_dir", f / "run"}));
  CHECK_THAT(said.err, ContainsSubstring("input 'input' takes NCHW, 1 channel, 28 x 28"));
  CHECK_THAT(said.err, ContainsSubstring("resize 28,28"));
  const Said eval = must_run({"eval", f / "run", "--val", f / "val", "--device", "cpu", "--require", "accuracy>=0.9"});
  CHECK_THAT(eval.err, ContainsSubstring("from the model's metadata"));
  must_run({"predict", f / "run", "--inputs", f / "val", "--out", f / "p.jsonl", "--device", "cpu", "--quiet"});
  const std::vector<json> rows = json_lines(f / "p.jsonl");
  CHECK(rows.size() == 10);
  size_t right = 0;
  for (const json& row : rows)
    right +=
        row.at("path").get<std::string>().find(row.at("predicted_label").get<std::string>() + "/") != std::string::npos;
  CHECK(right >= 9);
  must_run({"export", f / "run", "--out", f / "again.onnx", "--quiet"});
  CHECK(bytes_of(f / "again.onnx") == bytes_of(f / "run/model.onnx"));

  // A run with augmentation that is stopped and resumed ends with the same bytes.
  const std::vector<std::string> augmented = {"--transforms",
                                              "random_crop 28 padding=3 | rotation 10 | random_erasing",
                                              "--val_split",
                                              "0.2",
                                              "--quiet",
                                              "--save_steps",
                                              "4"};
  const auto run = [&](const std::string& dir, std::vector<std::string> more) {
    more.insert(more.end(), augmented.begin(), augmented.end());
    more.insert(more.end(), {"--output_dir", f / dir});
    must_run(lenet(f, more));
  };
  run("whole", {"--max_steps", "8", "--loading_threads", "1", "--lr_scheduler", "constant"});
  run("parts", {"--max_steps", "4", "--loading_threads", "3", "--lr_scheduler", "constant"});
  run("parts", {"--max_steps", "8", "--loading_threads", "2", "--lr_scheduler", "constant", "--resume", "auto"});
  CHECK(bytes_of(f / "whole/model.onnx") == bytes_of(f / "parts/model.onnx"));
  write_halves(f / "train", 21);
  const Said other = run_verb(lenet(f, {"--max_steps", "9", "--resume", "auto", "--output_dir", f / "whole"}));
  CHECK(other.code == 6);  // refused, because the images have changed
}

// Writes stripes of three colors, 20 x 16, and masks of their classes, with the value 77 in the first line.
static void write_stripes(const TempDir& f) {
  fs::create_directories(f / "images");
  fs::create_directories(f / "masks");
  for (int i = 0; i < 8; ++i) {
    std::string picture = "P6 20 16 255\n", mask = "P5 20 16 255\n";
    for (int y = 0; y < 16; ++y) {
      for (int x = 0; x < 20; ++x) {
        const int c = (x + i) % 20 < 7 ? 0 : (x + i) % 20 < 14 ? 1 : 2;
        for (int k = 0; k < 3; ++k) picture += static_cast<char>(k == c ? 220 : 30);
        mask += static_cast<char>(y == 0 ? 77 : c);
      }
    }
    write_bytes(f / ("images/" + std::to_string(i) + ".ppm"), picture);
    write_bytes(f / ("masks/" + std::to_string(i) + ".pgm"), mask);
  }
}

TEST_CASE("the name of an architecture is no model, and is told apart", "[images]") {
  const Said said = run_verb({"lenet", "--train", "images"});
  CHECK(said.id == "E_MODEL_OPEN");
  CHECK_THAT(said.hint, ContainsSubstring("create lenet --out lenet.onnx"));
}

TEST_CASE("a net that halves images is given sides that it takes", "[images]") {
  const TempDir f;
  write_stripes(f);
  must_run(
      {"create", "unet", "--model_config", R"({"width": 4, "depth": 3, "num_classes": 3})", "--out", f / "u.onnx"});
  const Said said =
      must_run({f / "u.onnx", "--train", f / "images", "--train_masks", f / "masks", "--mask_ignore", "77",
                "--max_steps", "1", "--batch_size", "2", "--device", "cpu", "--output_dir", f / "run"});
  CHECK_THAT(said.err, ContainsSubstring("(--eval_transforms): resize 16,16 |"));  // 20 is not a multiple of 8
  must_run({"predict", f / "run", "--inputs", f / "images", "--out", f / "p/", "--device", "cpu", "--quiet"});
  const Image mask = decode_image({bytes_of(f / "p/0.png"), "0.png", true});
  CHECK(mask.width == 20);
  CHECK(mask.height == 16);
}

TEST_CASE("images and masks in two folders train a model of segmentation", "[images]") {
  const TempDir f;
  write_stripes(f);
  const std::vector<std::string> words = {made("masks.onnx"),
                                          "--train",
                                          f / "images",
                                          "--train_masks",
                                          f / "masks",
                                          "--val",
                                          f / "images",
                                          "--val_masks",
                                          f / "masks",
                                          "--lr",
                                          "0.05",
                                          "--device",
                                          "cpu",
                                          "--batch_size",
                                          "4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  const Said bad = run_verb(with({"--output_dir", f / "bad", "--quiet"}));
  CHECK(bad.id == "E_DATA_LABEL");
  CHECK_THAT(bad.fact, ContainsSubstring("is of class 77, the model has 3 classes"));
  must_run(with({"--mask_ignore", "77", "--max_steps", "60", "--output_dir", f / "run", "--quiet", "--transforms",
                 "resize 16,20 | horizontal_flip", "--eval_transforms", "none", "--require", "miou>=0.9"}));
  must_run({"eval", f / "run", "--val", f / "images", "--val_masks", f / "masks", "--device", "cpu", "--quiet",
            "--require", "miou>=0.9"});
}

TEST_CASE("--check_data on images counts and names what is wrong", "[images]") {
  const TempDir f;
  write_halves(f / "train", 3);
  write_halves(f / "val", 2);
  write_bytes(f / "train/top/7.png", bytes_of(pictures("picture.png")).substr(0, 300));
  fs::create_directories(f / "val/side");
  fs::copy_file(pictures("picture.jpg"), f / "val/side/1.jpg");
  fs::copy_file(f / "train/top/0.pgm", f / "train/bottom/same.pgm");
  const Said said = run_verb(lenet(f, {"--val", f / "val", "--check_data", "--quiet"}));
  CHECK(said.code == 5);
  const json j = json::parse(said.out);
  CHECK(j["task"] == "classification");
  CHECK(j["files"][0]["rows"] == 8);
  CHECK(j["files"][0]["labels"] == json::parse(R"({"bottom": 4, "top": 4})"));
  CHECK(j["files"][0]["images"]["readable"] == 7);
  CHECK(j["files"][0]["images"]["sizes"] == 1);
  CHECK(j["files"][1]["images"]["smallest"] == json::parse("[31, 23]"));
  CHECK(j["files"][0]["duplicates"] == 1);
  CHECK(j["validation_rows_in_training"] == 4);
  CHECK(j["problems"] == 3);
  CHECK_THAT(said.err, ContainsSubstring("top/7.png: a damaged PNG: the file ends too early"));
  CHECK_THAT(said.err, ContainsSubstring("has another label here"));
  CHECK_THAT(said.err, ContainsSubstring("'side' is not in the training data"));
}

TEST_CASE("an IDX file trains with the labels beside it, and is evaluated, predicted and checked", "[images]") {
  const TempDir f;
  const auto idx = [&](const std::string& name, int each, size_t labeled) {
    std::string pixels(4, '\0'), labels(4, '\0');
    pixels[2] = labels[2] = 8;
    pixels[3] = 3;
    labels[3] = 1;
    for (const int n : {2 * each, 28, 28}) pixels += std::string(3, '\0') + static_cast<char>(n);
    labels += std::string(3, '\0') + static_cast<char>(labeled);
    for (int i = 0; i < 2 * each; ++i) {
      for (int y = 0; y < 28; ++y) {
        for (int x = 0; x < 28; ++x)
          pixels += static_cast<char>(((y < 14) == (i % 2 == 0) ? 180 : 40) + (x * 7 + y * 13 + i * 29) % 32);
      }
      if (labels.size() < 8 + labeled) labels += static_cast<char>(i % 2);
    }
    write_bytes(f / (name + "-images-idx3-ubyte"), pixels);
    write_bytes(f / (name + "-labels-idx1-ubyte"), labels);
    return f / (name + "-images-idx3-ubyte");
  };
  const std::string val = idx("val", 5, 10);
  fs::create_directories(f / "train");  // the labels of t must be found in this folder, next to the images
  const std::string train = idx("train/t", 20, 40);
  const auto words = [&](std::vector<std::string> more) {
    std::vector<std::string> out = lenet(f, std::move(more));
    out[2] = train;
    return out;
  };
  const Said said = must_run(words({"--val", val, "--max_steps", "10", "--output_dir", f / "run"}));
  CHECK_THAT(said.err, ContainsSubstring("input 'input' takes NCHW, 1 channel, 28 x 28"));
  must_run({"eval", f / "run", "--val", val, "--device", "cpu", "--quiet", "--require", "accuracy>=0.9"});
  must_run({"predict", f / "run", "--inputs", val, "--out", f / "p.jsonl", "--device", "cpu", "--quiet"});
  const std::vector<json> rows = json_lines(f / "p.jsonl");
  REQUIRE(rows.size() == 10);
  CHECK(rows[3].at("path") == val + "#3");
  size_t right = 0;
  for (size_t i = 0; i < 10; ++i) right += rows[i].at("predicted_label") == std::to_string(i % 2);
  CHECK(right >= 9);
  const json j = json::parse(must_run(words({"--val", val, "--check_data", "--quiet"})).out);
  CHECK(j["files"][0]["labels"] == json::parse(R"({"0": 20, "1": 20})"));
  CHECK(j["files"][1]["images"]["readable"] == 10);
  const std::string bad = idx("bad", 5, 9);
  const Said refused = run_verb(words({"--val", bad, "--output_dir", f / "no", "--quiet"}));
  CHECK(refused.code == 5);
  CHECK_THAT(refused.fact, ContainsSubstring("holds 9 labels"));
  CHECK_THAT(refused.hint, ContainsSubstring("--val_labels"));
  must_run(words({"--val", bad, "--val_labels", f / "val-labels-idx1-ubyte", "--max_steps", "1", "--output_dir",
                  f / "named", "--quiet"}));
}
