// ResNet (He et al. 2015, arXiv 1512.03385) as in torchvision and timm: in a bottleneck the 3x3 convolution has the
// stride.
#include <cmath>

#include "models/architecture.h"
#include "models/transformer.h"
#include "models/vision.h"

namespace amp {
namespace {

// Returns the initialization of PyTorch's kaiming_normal_ with mode fan_out for relu.
Init kaiming(const ConvLayer& s) {
  return Init::normal(std::sqrt(2.0 / static_cast<double>(s.out * s.kernel * s.kernel)));
}

NetValue conv_norm(Net& net, NetValue x, const std::string& at, const std::string& conv_name,
                   const std::string& norm_name, const ConvLayer& s) {
  return batch_norm(net, conv(net, x, at + conv_name, s, kaiming(s), false), at + norm_name, s.out);
}

// Builds one residual block. at: the prefix of the block's names, such as "layer1.0.". The output has `width` channels;
// the output of a bottleneck has 4 times as many.
NetValue block(Net& net, NetValue x, const std::string& at, int64_t in, int64_t width, int64_t stride,
               bool bottleneck) {
  const int64_t out = bottleneck ? 4 * width : width;
  const auto relu = [&](NetValue v) { return net.op("Relu", at + "act", {v}); };
  NetValue y;
  if (bottleneck) {
    y = relu(conv_norm(net, x, at, "conv1", "bn1", {in, width, 1}));
    y = relu(conv_norm(net, y, at, "conv2", "bn2", {width, width, 3, stride, 1}));
    y = conv_norm(net, y, at, "conv3", "bn3", {width, out, 1});
  } else {
    y = relu(conv_norm(net, x, at, "conv1", "bn1", {in, width, 3, stride, 1}));
    y = conv_norm(net, y, at, "conv2", "bn2", {width, width, 3, 1, 1});
  }
  const bool same = stride == 1 && in == out;
  return relu(net.add(y, same ? x : conv_norm(net, x, at + "downsample.", "0", "1", {in, out, 1, stride}), at + "add"));
}

void build_resnet(Net& net, const ModelConfig& c, Head) {
  const int64_t channels = c.positive("in_chans", 3), classes = c.positive("num_classes", 1000);
  const std::vector<int64_t> depths = c.integers("depths", {2, 2, 2, 2}, 1, ModelConfig::kMostLayers);
  const bool bottleneck = c.flag("bottleneck", false);
  if (depths.size() != 4) c.refuse("depths", "expected four numbers");
  const int64_t size = c.positive("image_size", 224);
  NetValue x = net.input("pixel_values", DType::f32, images_by(channels, size, size));
  x = net.op("Relu", "act1", {conv_norm(net, x, "", "conv1", "bn1", {channels, 64, 7, 2, 3})});
  x = pool(net, x, "MaxPool", "maxpool", 3, 2, 1);
  int64_t in = 64;
  for (int64_t stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage;
    for (int64_t i = 0; i < depths[static_cast<size_t>(stage)]; ++i) {
      const std::string at = cat("layer", stage + 1, ".", i, ".");
      x = block(net, x, at, in, width, i == 0 && stage > 0 ? 2 : 1, bottleneck);
      in = bottleneck ? 4 * width : width;
    }
  }
  x = net.op("Flatten", "", {net.op("GlobalAveragePool", "global_pool", {x})});
  net.output(torch_linear(net, x, "fc", in, classes), "logits", rows_by(classes));
}

constexpr std::string_view k18 =
    R"({"architecture": "resnet18", "depths": [2, 2, 2, 2], "bottleneck": false, "in_chans": 3, "image_size": 224, "num_classes": 1000})";
constexpr std::string_view k34 =
    R"({"architecture": "resnet34", "depths": [3, 4, 6, 3], "bottleneck": false, "in_chans": 3, "image_size": 224, "num_classes": 1000})";
constexpr std::string_view k50 =
    R"({"architecture": "resnet50", "depths": [3, 4, 6, 3], "bottleneck": true, "in_chans": 3, "image_size": 224, "num_classes": 1000})";
constexpr std::string_view k101 =
    R"({"architecture": "resnet101", "depths": [3, 4, 23, 3], "bottleneck": true, "in_chans": 3, "image_size": 224, "num_classes": 1000})";

Architecture resnet(std::string_view name, std::string_view config) {
  return {name, {}, "", {"fc."}, {Head::image_classification}, config, build_resnet};
}
const RegisterArchitecture resnet_rows[] = {
    RegisterArchitecture{resnet("resnet18", k18)}, RegisterArchitecture{resnet("resnet34", k34)},
    RegisterArchitecture{resnet("resnet50", k50)}, RegisterArchitecture{resnet("resnet101", k101)}};

}  // namespace
}  // namespace amp
