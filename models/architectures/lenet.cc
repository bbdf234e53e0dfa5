// LeNet (LeCun et al. 1998) as trained in "Dive into Deep Learning": sigmoid, average pooling, Xavier initialization.
#include <cmath>

#include "base/error.h"
#include "models/architecture.h"
#include "models/transformer.h"
#include "models/vision.h"

namespace amp {
namespace {

Init xavier(int64_t fan_in, int64_t fan_out) {
  return Init::uniform(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
}

void build_lenet(Net& net, const ModelConfig& c, Head) {
  const int64_t in = c.positive("in_chans"), size = c.positive("image_size"), classes = c.positive("num_classes");
  const std::vector<int64_t> channels = c.integers("channels", {6, 16}), hidden = c.integers("hidden", {120, 84});
  const std::string act = c.text("activation", "sigmoid");
  if (channels.size() != 2) c.refuse("channels", "expected two numbers");
  const std::vector<int64_t> kernels = c.integers("kernels", {5, 5}), padding = c.integers("padding", {2, 0}, 0);
  if (kernels.size() != 2) c.refuse("kernels", "expected two numbers");
  if (padding.size() != 2) c.refuse("padding", "expected two numbers");
  const std::string kind = c.text("pool", "average");
  if (kind != "average" && kind != "max") c.refuse("pool", "expected average or max");
  const std::string type = kind == "max" ? "MaxPool" : "AveragePool";
  NetValue x = net.input("image", DType::f32, images_by(in, size, size));
  const auto layer = [&](const std::string& name, const ConvLayer& s) {
    x = conv(net, x, name, s, xavier(s.in * s.kernel * s.kernel, s.out * s.kernel * s.kernel), true);
    x = pool(net, net.activation(x, act, name), type, name, 2, 2);
  };
  int64_t side = size, from = in;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t convolved = side + 2 * padding[i] - kernels[i] + 1;
    if (convolved < 2) c.refuse("image_size", cat(size, " x ", size, " is too small for conv", i + 1));
    layer(cat("conv", i + 1), {from, channels[i], kernels[i], 1, padding[i]});
    side = convolved / 2;
    from = channels[i];
  }
  x = net.op("Flatten", "", {x});
  int64_t width = channels[1] * side * side, number = 1;
  for (const int64_t next : hidden) {
    const std::string name = cat("fc", number++);
    x = net.activation(net.linear(x, name, width, next, xavier(width, next), torch_uniform(width)), act, name);
    width = next;
  }
  x = net.linear(x, cat("fc", number), width, classes, xavier(width, classes), torch_uniform(width));
  net.output(x, "logits", rows_by(classes));
}

const RegisterArchitecture lenet_row{{"lenet",
                                      {},
                                      "",
                                      {},
                                      {Head::image_classification},
                                      R"({"architecture": "lenet", "in_chans": 1, "image_size": 28, "channels": [6, 16],
  "kernels": [5, 5], "padding": [2, 0], "hidden": [120, 84], "num_classes": 10, "activation": "sigmoid", "pool": "average"})",
                                      build_lenet}};

}  // namespace
}  // namespace amp
