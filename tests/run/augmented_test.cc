// Runs whose batches change in every epoch: masked tokens of texts, mixed images.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>

#include "run/model/build.h"
#include "run/run.h"
#include "tests/errors.h"
#include "tests/run/lenet_run.h"
#include "tests/support.h"

using namespace amp;
using amp::test::error_of;
using amp::test::TempDir;

namespace {

// A tiny BERT, and texts of one word again and again.
RunSpec masked_run(const TempDir& f, const std::string& run) {
  std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", lines;
  const std::string words = "abcdefgh";
  for (const char w : words) vocab += std::string(1, w) + "\n";
  for (size_t start = 0; start < 64; ++start) {
    for (int i = 0; i < 12; ++i) lines += std::string(1, words[start % words.size()]) + " ";
    lines += "\n";
  }
  std::ofstream(f / "vocab.txt") << vocab;
  std::ofstream(f / "lines.txt") << lines;
  create_model(
      {.model = "bert",
       .config =
           R"({"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 13, "max_position_embeddings": 16})",
       .head = "masked_lm"},
      f / "model.onnx");
  RunSpec spec;
  spec.model = f / "model.onnx";
  spec.train = spec.val = f / "lines.txt";
  spec.data_format = "lines";
  spec.text_columns = {"text"};
  spec.vocab = f / "vocab.txt";
  spec.loss = {"masked_lm"};
  spec.lr = 1e-2;
  spec.batch_size = 16;
  spec.max_steps = 60;
  spec.device = "cpu";
  spec.output_dir = f / run;
  return spec;
}

}  // namespace

TEST_CASE("a masked language model learns from texts, and its file is judged as the run judged it") {
  const TempDir f;
  const RunSpec spec = masked_run(f, "run");
  RunSpec untrained = spec;
  untrained.output_dir.clear();
  const Metrics before = evaluate_model(untrained);
  const TrainReport report = train(*prepare(spec));
  RunSpec judged;
  judged.model = report.model;
  judged.val = spec.val;
  judged.data_format = "lines";
  judged.vocab = spec.vocab;
  judged.device = "cpu";
  const Metrics after = evaluate_model(judged);  // loss, columns and shares are in the model's metadata
  CHECK(after.loss < 0.5 * before.loss);
  CHECK(after.value("accuracy") > 0.8);
  CHECK(std::abs(after.loss - report.result.last->loss) < 1e-6 * after.loss);  // batches of another size
  judged.mlm_probability = 0.5;
  CHECK(evaluate_model(judged).loss != after.loss);
}

TEST_CASE("images are mixed where they are files, one label each") {
  const TempDir f;
  RunSpec tensors = test::lenet_run(f, "run", 1);
  tensors.mixup = 0.2;
  CHECK(error_of([&] { prepare(tensors); }).id() == "E_MIXUP");

  // 24 pictures of two sizes of squares as IDX, of which a LeNet learns both classes from mixed ones alone.
  std::string images("\0\0\x08\x03\0\0\0\x18\0\0\0\x1c\0\0\0\x1c", 16), labels("\0\0\x08\x01\0\0\0\x18", 8);
  for (int i = 0; i < 24; ++i) {
    const int side = i % 2 ? 20 : 6, at = i % 5;
    for (int y = 0; y < 28; ++y) {
      for (int x = 0; x < 28; ++x) images += (y >= at && y < at + side && x >= at && x < at + side) ? '\xff' : '\0';
    }
    labels += static_cast<char>(i % 2);
  }
  std::ofstream(f / "squares-images-idx3-ubyte", std::ios::binary) << images;
  std::ofstream(f / "squares-labels-idx1-ubyte", std::ios::binary) << labels;
  create_model({.model = "lenet"}, f / "lenet.onnx");
  RunSpec spec;
  spec.model = f / "lenet.onnx";
  spec.train = spec.val = f / "squares-images-idx3-ubyte";
  spec.transforms = "none";
  spec.mixup = 0.4;
  spec.cutmix = 1;
  spec.num_labels = 2;
  spec.lr = 3e-3;
  spec.batch_size = 8;
  spec.max_steps = 60;
  spec.device = "cpu";
  spec.output_dir = f / "mixed";
  const TrainReport report = train(*prepare(spec));
  CHECK(report.result.last->value("accuracy") == 1);
  spec.output_dir = f / "again";
  CHECK(train(*prepare(spec)).result.last->loss == report.result.last->loss);
}
