// Models that `create` makes without a checkpoint: initial weights by their definitions, numbers of parameters by
// PyTorch's modules of the same structure, refused configurations.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <functional>

#include "importer/read/import.h"
#include "run/model/build.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using amp::test::error_of;
using amp::test::TempDir;
using Catch::Matchers::ContainsSubstring;

namespace {

double per_output(const Dims& d) { return static_cast<double>(numel(d)) / static_cast<double>(d[0]); }
double per_second(const Dims& d) { return static_cast<double>(numel(d)) / static_cast<double>(d[1]); }

struct Drawn {
  const char* model;
  const char* config;
  bool uniform;
  std::function<double(const Dims&)> deviation;  // of a weight with these dims, (out, in, ...)
};

double xavier(const Dims& d) { return std::sqrt(2 / (per_output(d) + per_second(d))); }
// U(-b, b) with b = 1 / sqrt(fan_in) has the deviation b / sqrt(3). PyTorch takes fan_in from the second dim, also for
// transposed convolutions.
double of_torch(const Dims& d) { return 1 / std::sqrt(3 * per_output(d)); }
// kaiming_normal_ by fan_out for convolutions.
double of_resnet(const Dims& d) { return d.size() == 4 ? std::sqrt(2 / per_second(d)) : of_torch(d); }
double fixed(const Dims&) { return 0.05; }

}  // namespace

TEST_CASE("new weights are drawn by the initialization of their architecture") {
  const Drawn drawn = GENERATE(
      Drawn{"lenet", "", true, xavier},
      Drawn{"lenet", R"({"channels": [20, 50], "kernels": [3, 5], "padding": [0, 0], "hidden": [128]})", true, xavier},
      Drawn{"unet", R"({"width": 16, "depth": 2})", true, of_torch},
      Drawn{"mlp", R"({"inputs": 60, "hidden": [100, 40], "outputs": 50})", true, of_torch},
      Drawn{"resnet18", R"({"depths": [1, 1, 1, 1], "image_size": 32, "num_classes": 10})", false, of_resnet},
      Drawn{"bert",
            R"({"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 96,
                "vocab_size": 90, "max_position_embeddings": 40, "initializer_range": 0.05})",
            false, fixed},
      Drawn{"llama",
            R"({"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
                "intermediate_size": 96, "vocab_size": 90, "initializer_range": 0.05})",
            false, fixed},
      Drawn{"convnext", R"({"hidden_sizes": [32, 64], "depths": [1, 1], "image_size": 32, "initializer_range": 0.05})",
            false, fixed});
  INFO(drawn.model << ' ' << drawn.config);
  const TempDir f;
  create_model({.model = drawn.model, .config = drawn.config}, f / "m.onnx");
  size_t compared = 0;
  for (const SourceValue& v : import_model(f / "m.onnx").graph.values) {
    if (!v.trainable || v.data.rank() < 2 || v.data.numel() < 1000) continue;
    INFO(v.name << ' ' << to_string(v.data.dims()));
    double squares = 0, largest = 0;
    for (const double w : v.data.to_doubles()) {
      squares += w * w;
      largest = std::max(largest, std::abs(w));
    }
    const double want = drawn.deviation(v.data.dims());
    // The deviation of 1000 normal numbers varies by 2 %.
    CHECK(std::sqrt(squares / static_cast<double>(v.data.numel())) == Catch::Approx(want).epsilon(0.08));
    if (drawn.uniform) CHECK(largest <= std::sqrt(3.0) * want * (1 + 1e-6));
    ++compared;
  }
  CHECK(compared >= 2);
}

// The numbers are those of torch modules: Conv2d and BatchNorm2d twice per level, ConvTranspose2d, a 1x1 convolution.
TEST_CASE("a U-Net has the parameters of PyTorch's modules at every depth") {
  const TempDir f;
  CHECK(create_model({.model = "unet", .config = R"({"width": 2, "depth": 3})"}, f / "a.onnx").parameters == 7'762);
  CHECK(create_model({.model = "unet", .config = R"({"width": 4, "depth": 4})"}, f / "b.onnx").parameters == 122'098);
}

TEST_CASE("LeNet's lists have two numbers each") {
  const TempDir f;
  for (const std::string key : {"channels", "kernels", "padding"}) {
    for (const std::string numbers : {"[3]", "[3, 3, 3]"}) {
      INFO(key << ' ' << numbers);
      const Error e = error_of(
          [&] { create_model({.model = "lenet", .config = "{\"" + key + "\": " + numbers + "}"}, f / "m.onnx"); });
      CHECK_THAT(e.what(), ContainsSubstring(key));
      CHECK_THAT(e.what(), ContainsSubstring("expected two numbers"));
    }
  }
}
