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

// Returns a run of a tiny BERT on texts that repeat one word.
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
  spec.model.model = f / "model.onnx";
  spec.data.train = spec.data.val = f / "lines.txt";
  spec.data.data_format = "lines";
  spec.data.text.text_columns = {"text"};
  spec.data.text.vocab = f / "vocab.txt";
  spec.objective.loss = {"masked_lm"};
  spec.optimization.lr = 1e-2;
  spec.schedule.batch_size = 16;
  spec.schedule.max_steps = 60;
  spec.device.device = "cpu";
  spec.output.output_dir = f / run;
  return spec;
}

}  // namespace

TEST_CASE("a masked language model learns from texts, and its file is judged as the run judged it") {
  const TempDir f;
  const RunSpec spec = masked_run(f, "run");
  RunSpec untrained = spec;
  untrained.output.output_dir.clear();
  const Metrics before = evaluate_model(untrained);
  const TrainReport report = train(*prepare(spec));
  RunSpec judged;
  judged.model.model = report.model;
  judged.data.val = spec.data.val;
  judged.data.data_format = "lines";
  judged.data.text.vocab = spec.data.text.vocab;
  judged.device.device = "cpu";
  const Metrics after = evaluate_model(judged);  // loss, columns and mixing shares are in the model's metadata
  CHECK(after.loss < 0.5 * before.loss);
  CHECK(after.value("accuracy") > 0.8);
  // The two evaluations differ only in their batch sizes.
  CHECK(std::abs(after.loss - report.result.last->loss) < 1e-6 * after.loss);
  judged.data.language.mlm_probability = 0.5;
  CHECK(evaluate_model(judged).loss != after.loss);
}

TEST_CASE("images are mixed where they are files, one label each") {
  const TempDir f;
  RunSpec tensors = test::lenet_run(f, "run", 1);
  tensors.data.images.mixup = 0.2;
  CHECK(error_of([&] { prepare(tensors); }).id() == "E_MIXUP");

  // Writes 24 pictures of two sizes of squares as IDX. A LeNet learns both classes from them, although all images are
  // mixed.
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
  spec.model.model = f / "lenet.onnx";
  spec.data.train = spec.data.val = f / "squares-images-idx3-ubyte";
  spec.data.images.transforms = "none";
  spec.data.images.mixup = 0.4;
  spec.data.images.cutmix = 1;
  spec.model.num_labels = 2;
  spec.optimization.lr = 3e-3;
  spec.schedule.batch_size = 8;
  spec.schedule.max_steps = 60;
  spec.device.device = "cpu";
  spec.output.output_dir = f / "mixed";
  const TrainReport report = train(*prepare(spec));
  CHECK(report.result.last->value("accuracy") == 1);
  spec.output.output_dir = f / "again";
  CHECK(train(*prepare(spec)).result.last->loss == report.result.last->loss);
}
