// Batches of image files: folders, tables, masks, threads, and errors.
#include "data/image_dataset.h"

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>

#include "data/image_files.h"
#include "data/loader.h"
#include "data/subset.h"
#include "tests/data/image_files.h"
#include "tests/errors.h"

using namespace amp;
using namespace amp::test;
using Ints = std::vector<int64_t>;
namespace fs = std::filesystem;

namespace {

std::string grey_file(int width, int height, const std::string& values) {
  return "P5 " + std::to_string(width) + " " + std::to_string(height) + " 255\n" + values;
}

void put(const std::string& path, const std::string& from) {
  fs::create_directories(fs::path(path).parent_path());
  fs::copy_file(golden_image(from), path);
}

// Writes 12 pictures of two classes as class folders.
void make_folder(const TempDir& dir, const std::string& name = "train") {
  for (int i = 0; i < 6; ++i) {
    put(dir / (name + "/dog/" + std::to_string(i) + ".png"), "picture.png");
    put(dir / (name + "/cat/deep/" + std::to_string(i) + ".JPG"), "picture.jpg");
  }
  write_in_folder(dir / (name + "/cat/notes.txt"), "no image");
}

ImageOptions options_of(const std::string& training, const std::string& evaluation = "none") {
  ImageOptions o;
  o.input = {"x", DType::f32, ImageInput::Layout::nchw, 3, -1, -1};
  o.path_column = "path";
  o.label_column = "label";
  o.training = std::make_shared<Pipeline>(training);
  o.evaluation = std::make_shared<Pipeline>(evaluation);
  return o;
}

const std::vector<InputSpec> kInputs = {{"x", DType::f32, Dims{-1, 3, -1, -1}}};

}  // namespace

TEST_CASE("class folders are classes, in the order of their names", "[images]") {
  const TempDir dir;
  make_folder(dir);
  const Table t = class_folders(dir / "train/");
  CHECK(t.rows() == 12);
  CHECK(t.text(0, 1) == "cat");
  CHECK(t.text(11, 1) == "dog");
  CHECK(t.where(0) == dir / "train/cat/deep/0.JPG");
  ImageOptions o = options_of("none");
  o.classes = find_classes(t, "label");
  CHECK(o.classes.names == std::vector<std::string>{"cat", "dog"});
  const auto data = make_image_dataset(t, kInputs, o, true);
  const Batch b = data->batch(Ints{0, 11});
  CHECK(b.inputs.at("x").dims() == Dims{2, 3, 23, 31});
  CHECK(b.labels.to_ints() == Ints{0, 1});
  CHECK(b.valid_items == 2);
  CHECK(data->where(11) == dir / "train/dog/5.png");
}

TEST_CASE("batches are the same for any number of threads, and other ones each epoch", "[images][threads]") {
  const TempDir dir;
  make_folder(dir);
  const Table t = class_folders(dir / "train");
  ImageOptions o = options_of("random_resized_crop 12 | horizontal_flip | normalize imagenet", "resize 12,12");
  o.classes = {"cat", "dog"};
  std::vector<std::vector<double>> seen;
  for (const int threads : {1, 2, 5}) {
    o.threads = threads;
    const auto data = make_image_dataset(t, kInputs, o, true);
    SamplerOptions s;
    s.batch_size = 5;
    WindowLoader loader(*data, Sampler(data->size(), {}, s), 2);
    std::vector<double> all;
    while (const auto window = loader.next()) {
      const std::vector<double> x = window->batches[0].inputs.at("x").to_doubles();
      all.insert(all.end(), x.begin(), x.end());
    }
    seen.push_back(all);
  }
  CHECK(seen[0].size() == 2 * 12 * 3 * 144);
  CHECK(seen[0] == seen[1]);
  CHECK(seen[0] == seen[2]);
  const auto data = make_image_dataset(t, kInputs, o, true);
  const auto pixels = [&](int64_t epoch) { return data->training_batch(Ints{4}, epoch).inputs.at("x").to_doubles(); };
  CHECK(pixels(0) == pixels(0));
  CHECK(pixels(0) != pixels(1));
  const std::shared_ptr<const Dataset> evaluated = data->for_evaluation();
  CHECK(evaluated->training_batch(Ints{4}, 0).inputs.at("x").to_doubles() ==
        evaluated->training_batch(Ints{4}, 1).inputs.at("x").to_doubles());
  CHECK(evaluated->batch(Ints{4}).labels.to_ints() == Ints{0});
  const SampleSplit split = split_samples(*data, 0.5, 1);
  CHECK(data->labels_of(split.held_out).to_ints() == Ints{0, 0, 0, 1, 1, 1});
}

TEST_CASE("a table names image files, beside it or below a root", "[images]") {
  const TempDir dir;
  put(dir / "pictures/a.png", "picture.png");
  put(dir / "pictures/b.png", "grey.png");
  write_in_folder(dir / "t.csv", "file,score\npictures/a.png,0.5\npictures/b.png,1.5\n");
  ImageOptions o = options_of("none");
  o.path_column = "file";
  o.label_column = "score";
  o.labels = LabelForm::numbers;
  const auto data = make_image_dataset(Table::read(dir / "t.csv"), kInputs, o, false);
  const Batch b = data->batch(Ints{0, 1});
  CHECK(b.labels.to_doubles() == std::vector<double>{0.5, 1.5});
  CHECK(b.inputs.at("x").dims() == Dims{2, 3, 23, 31});  // the gray image has three channels
  CHECK(data->where(1) == (dir / "t.csv") + ":3");

  write_in_folder(dir / "elsewhere/t.csv", "file,score\na.png,1\nb.png,2\nc.png,3\n");
  const Table other = Table::read(dir / "elsewhere/t.csv");
  expect_error("E_IMAGE_MISSING", "t.csv:2", [&] { make_image_dataset(other, kInputs, o, false); });
  o.root = dir / "pictures";
  expect_error("E_IMAGE_MISSING", "t.csv:4", [&] { make_image_dataset(other, kInputs, o, false); });
}

TEST_CASE("layouts, grey inputs and bytes", "[images]") {
  const TempDir dir;
  write_in_folder(dir / "a/x/1.pgm", grey_file(3, 2, "abcdef"));
  write_in_folder(dir / "a/y/2.pgm", grey_file(3, 2, "ghijkl"));
  const Table t = class_folders(dir / "a");
  ImageOptions o = options_of("to_float", "to_float");
  o.classes = {"x", "y"};
  const auto numbers = [&](ImageInput input, Dims dims) {
    o.input = std::move(input);
    const HostTensor x = make_image_dataset(t, kInputs, o, false)->batch(Ints{0, 1}).inputs.at("x");
    CHECK(x.dims() == dims);
    CHECK(x.dtype() == o.input.dtype);
    std::string text;
    for (const double v : x.to_doubles()) text += static_cast<char>(v);
    return text;
  };
  using Layout = ImageInput::Layout;
  CHECK(numbers({"x", DType::f32, Layout::nchw, 1, 2, 3}, {2, 1, 2, 3}) == "abcdefghijkl");
  CHECK(numbers({"x", DType::u8, Layout::nhw, 1, 2, 3}, {2, 2, 3}) == "abcdefghijkl");
  CHECK(numbers({"x", DType::f32, Layout::nhwc, 3, 2, 3}, {2, 2, 3, 3}).substr(0, 9) == "aaabbbccc");
  CHECK(numbers({"x", DType::f32, Layout::nchw, 3, 2, 3}, {2, 3, 2, 3}).substr(0, 12) == "abcdefabcdef");
}

TEST_CASE("masks are classes of pixels", "[images]") {
  const TempDir dir;
  write_in_folder(dir / "i/1.pgm", grey_file(3, 2, "abcdef"));
  write_in_folder(dir / "m/1.pgm", grey_file(3, 2, std::string("\x00\x01\x02\xff\x01\x00", 6)));
  ImageOptions o = options_of("horizontal_flip 1");
  o.labels = LabelForm::masks;
  const auto open = [&] { return make_image_dataset(masked_images(dir / "i", dir / "m"), kInputs, o, true); };
  const Batch b = open()->batch(Ints{0});
  CHECK(b.labels.dims() == Dims{1, 2, 3});
  CHECK(b.labels.to_ints() == Ints{2, 1, 0, 0, 1, kIgnoreIndex});
  CHECK(b.valid_items == 5);
  const auto data = open();
  data->check_label_range(2, kIgnoreIndex);
  expect_error("E_DATA_LABEL", "row 0, column 2 is of class 2", [&] { data->batch(Ints{0}); });
  o.masks.values = {0, 1};
  expect_error("E_MASK", "value 2", [&] { open()->batch(Ints{0}); });

  write_in_folder(dir / "m/1.pgm", grey_file(3, 2, std::string("\x00\xff\xff\xff\x00\x00", 6)));
  o.masks.values = find_mask_values({dir / "m/1.pgm"});
  CHECK(o.masks.values == Ints{0, 255});
  CHECK(open()->batch(Ints{0}).labels.to_ints() == Ints{1, 1, 0, 0, 0, 1});
  write_in_folder(dir / "m/1.pgm", grey_file(2, 3, "aaaaaa"));
  o.masks.values = find_mask_values({dir / "m/1.pgm"});
  CHECK(o.masks.values.empty());
  expect_error("E_MASK", "is 2 x 3 pixels", [&] { open()->batch(Ints{0}); });
  fs::remove(dir / "m/1.pgm");
  expect_error("E_MASK", "has no mask", [&] { open(); });
}

TEST_CASE("folders and images that cannot be used are refused with their name", "[images]") {
  const TempDir dir;
  fs::create_directories(dir / "empty");
  expect_error("E_DATA_EMPTY", "holds no class folders", [&] { class_folders(dir / "empty"); });
  fs::create_directories(dir / "idx");
  write_in_folder(dir / "idx/train-labels-idx1-ubyte.gz", "");
  write_in_folder(dir / "idx/train-images-idx3-ubyte.gz", "");
  expect_error("E_DATA_EMPTY", "files of many images", [&] { class_folders(dir / "idx"); });
  put(dir / "loose/a.png", "picture.png");
  expect_error("E_DATA_EMPTY", "but 1 image", [&] { class_folders(dir / "loose"); });
  write_in_folder(dir / "texts/cat/a.heic", "x");
  expect_error("E_DATA_EMPTY", "texts/cat' holds no image; 1 file has another extension",
               [&] { class_folders(dir / "texts"); });

  make_folder(dir);
  make_folder(dir, "val");
  put(dir / "val/zebra/1.png", "picture.png");
  ImageOptions o = options_of("none");
  o.classes = find_classes(class_folders(dir / "train"), "label");
  expect_error("E_DATA_LABEL_NEW", "'zebra'",
               [&] { make_image_dataset(class_folders(dir / "val"), kInputs, o, true); });

  fs::remove_all(dir / "val/zebra");
  write_in_folder(dir / "val/cat/0.png", "\x89PNG\r\n\x1a\n");
  const auto data = make_image_dataset(class_folders(dir / "val"), kInputs, o, true);
  expect_error("E_IMAGE", "val/cat/0.png", [&] { data->batch(Ints{5, 0}); });
  fs::remove(dir / "val/cat/0.png");
  expect_error("E_DATA_FILE", "val/cat/0.png", [&] { data->batch(Ints{0}); });

  o.input.height = o.input.width = 24;
  expect_error("E_IMAGE_SIZE", "is 31 x 23 pixels after the transforms, the model's input 'x' takes 24 x 24",
               [&] { make_image_dataset(class_folders(dir / "train"), kInputs, o, true)->batch(Ints{0}); });
  o.input.height = o.input.width = -1;
  put(dir / "train/cat/0.png", "two_bits.png");
  expect_error("E_IMAGE_SIZE", "others of its batch", [&] {
    make_image_dataset(class_folders(dir / "train"), kInputs, o, true)->batch(Ints{0, 1});
  });
  o.training = std::make_shared<Pipeline>("random_crop 40");
  expect_error("E_IMAGE_SMALL", "smaller than random_crop's 40 x 40",
               [&] { make_image_dataset(class_folders(dir / "train"), kInputs, o, true)->batch(Ints{0}); });
  std::vector<InputSpec> more = kInputs;
  more.push_back({"other", DType::f32, Dims{-1, 4}});
  expect_error("E_DATA_INPUT", "'other'", [&] { make_image_dataset(class_folders(dir / "train"), more, o, true); });
}
