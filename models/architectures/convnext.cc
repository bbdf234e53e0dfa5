// ConvNeXt (Liu et al. 2022, arXiv 2201.03545) with the weight names of Hugging Face, timm or torchvision. `Names`
// holds the differences between the three. LayerNorm normalizes over the last axis, so the channels are transposed to
// it and back.
#include <array>

#include "models/architecture.h"
#include "models/transformer.h"
#include "models/vision.h"

namespace amp {
namespace {

struct Names {
  std::string_view stem, stem_norm, stage, downsample;  // text before and after the number of a stage
  std::string_view block, scale, conv, norm, wide, narrow;
  std::string_view last_norm, classifier;
  // True for torchvision: downsamplings and stages alternate in one list, and the layer scale (C, 1, 1) multiplies a
  // tensor (B, C, H, W).
  bool one_list = false;
};
constexpr Names kHuggingFace{"embeddings.patch_embeddings",
                             "embeddings.layernorm",
                             "encoder.stages.",
                             ".downsampling_layer.",
                             ".layers.",
                             ".layer_scale_parameter",
                             ".dwconv",
                             ".layernorm",
                             ".pwconv1",
                             ".pwconv2",
                             "layernorm",
                             "classifier"};
constexpr Names kTimm{"stem.0",   "stem.1", "stages.",  ".downsample.", ".blocks.",  ".gamma",
                      ".conv_dw", ".norm",  ".mlp.fc1", ".mlp.fc2",     "head.norm", "head.fc"};
constexpr Names kTorchvision{"features.0.0", "features.0.1", "features.", ".",        ".",
                             ".layer_scale", ".block.0",     ".block.2",  ".block.3", ".block.5",
                             "classifier.0", "classifier.2", true};

class ConvNext {
 public:
  // base: prefix of all names except those of the classifier.
  ConvNext(Net& net, const Names& names, const std::string& base, const Init& drawn, double scale,
           const std::string& act)
      : net_(net), names_(names), base_(base), drawn_(drawn), scale_(scale), act_(act) {}

  NetValue stem(NetValue image, int64_t channels, int64_t width, int64_t patch) {
    return norm(convolved(image, cat(base_, names_.stem), {channels, width, patch, patch}),
                cat(base_, names_.stem_norm), width, 1e-6);
  }
  // Builds a stage. All stages except the first start with a downsampling convolution (`from` to `to` channels).
  NetValue stage(NetValue x, int64_t number, int64_t from, int64_t to, int64_t depth) {
    const std::string m = cat(base_, names_.stage, names_.one_list ? 2 * number + 1 : number);
    if (number > 0) {
      const std::string down = cat(names_.one_list ? cat(base_, names_.stage, 2 * number) : m, names_.downsample);
      x = convolved(norm(x, down + "0", from, 1e-6), down + "1", {from, to, 2, 2});
    }
    for (int64_t i = 0; i < depth; ++i) x = block(x, cat(m, names_.block, i), to);
    return x;
  }
  NetValue pooled(NetValue x, int64_t width, double epsilon) {
    x = net_.op("Flatten", "", {net_.op("GlobalAveragePool", "", {x})});
    return net_.layer_norm(x, cat(base_, names_.last_norm), width, epsilon);
  }
  NetValue linear(NetValue x, const std::string& module, int64_t in, int64_t out) {
    return net_.linear(x, module, in, out, drawn_, Init::constant(0));
  }

 private:
  NetValue convolved(NetValue x, const std::string& module, const ConvLayer& layer) {
    return conv(net_, x, module, layer, drawn_, Init::constant(0));
  }
  // Applies LayerNorm over the channels of (B, C, H, W).
  NetValue norm(NetValue x, const std::string& m, int64_t width, double epsilon) {
    return net_.transpose(net_.layer_norm(net_.transpose(x, m, {0, 2, 3, 1}), m, width, epsilon), m, {0, 3, 1, 2});
  }
  NetValue block(NetValue x, const std::string& m, int64_t width) {
    NetValue y = convolved(x, cat(m, names_.conv), {width, width, 7, 1, 3, width});
    y = net_.layer_norm(net_.transpose(y, m, {0, 2, 3, 1}), cat(m, names_.norm), width, 1e-6);
    y = net_.activation(linear(y, cat(m, names_.wide), width, 4 * width), act_, m + ".act");
    y = linear(y, cat(m, names_.narrow), 4 * width, width);
    const Dims scales = names_.one_list ? Dims{width, 1, 1} : Dims{width};
    const NetValue scale = net_.weight(cat(m, names_.scale), scales, Init::constant(scale_));
    const auto channels_first = [&](NetValue v) { return net_.transpose(v, m, {0, 3, 1, 2}); };
    y = names_.one_list ? net_.op("Mul", m, {channels_first(y), scale}) : channels_first(net_.op("Mul", m, {y, scale}));
    return net_.add(y, x, m);
  }

  Net& net_;
  const Names& names_;
  std::string base_;
  Init drawn_;
  double scale_;
  std::string act_;
};

// Returns the feature map (B, C, H, W) of the last stage.
NetValue features(ConvNext& m, NetValue image, int64_t channels, int64_t patch, const std::vector<int64_t>& widths,
                  const std::vector<int64_t>& depths) {
  NetValue x = m.stem(image, channels, widths[0], patch);
  for (size_t i = 0; i < widths.size(); ++i)
    x = m.stage(x, static_cast<int64_t>(i), widths[i > 0 ? i - 1 : 0], widths[i], depths[i]);
  return x;
}

std::pair<std::vector<int64_t>, std::vector<int64_t>> stages(const ModelConfig& c, const char* widths) {
  std::vector<int64_t> w = c.integers(widths, {96, 192, 384, 768}),
                       d = c.integers("depths", {3, 3, 9, 3}, 1, ModelConfig::kMostLayers);
  if (w.empty() || w.size() != d.size()) c.refuse("depths", cat("expected a number for each of ", widths));
  return {std::move(w), std::move(d)};
}

void build_hugging_face(Net& net, const ModelConfig& c, Head head) {
  const int64_t channels = c.positive("num_channels", 3), size = c.positive("image_size", 224);
  const auto [widths, depths] = stages(c, "hidden_sizes");
  const int64_t width = widths.back();
  const Init drawn = Init::normal(c.number("initializer_range", 0.02));
  ConvNext m(net, kHuggingFace, head == Head::none ? "" : "convnext.", drawn, c.number("layer_scale_init_value", 1e-6),
             c.text("hidden_act", "gelu"));
  const NetValue x = features(m, net.input("pixel_values", DType::f32, images_by(channels, size, size)), channels,
                              c.positive("patch_size", 4), widths, depths);
  const NetValue pooled = m.pooled(x, width, c.number("layer_norm_eps", 1e-12));
  if (head == Head::none) {
    net.output(x, "last_hidden_state", {{-1, "batch_size"}, {width, ""}, {-1, "rows"}, {-1, "columns"}});
    return net.output(pooled, "pooler_output", rows_by(width));
  }
  net.output(m.linear(pooled, "classifier", width, c.labels()), "logits", rows_by(c.labels()));
}

// Builds convnext_tiny, convnext_small or convnext_base of timm or torchvision. Both compute the same; the names of the
// weights in the checkpoint show which of the two wrote it.
void build_timm(Net& net, const ModelConfig& c, Head) {
  const int64_t channels = c.positive("in_chans", 3), size = c.positive("image_size", 224),
                classes = c.positive("num_classes", 1000);
  const auto [widths, depths] = stages(c, "dims");
  const auto has = [&](std::string_view module) { return net.weights().has(cat(module, ".weight")); };
  const Names& names = !has(kTimm.stem) && has(kTorchvision.stem) ? kTorchvision : kTimm;
  ConvNext m(net, names, "", Init::normal(0.02), 1e-6, "gelu");
  const NetValue x =
      features(m, net.input("pixel_values", DType::f32, images_by(channels, size, size)), channels, 4, widths, depths);
  const NetValue pooled = m.pooled(x, widths.back(), 1e-6);
  net.output(m.linear(pooled, std::string(names.classifier), widths.back(), classes), "logits", rows_by(classes));
}

constexpr std::string_view kConfig = R"({"model_type": "convnext", "num_channels": 3, "patch_size": 4,
  "hidden_sizes": [96, 192, 384, 768], "depths": [3, 3, 9, 3], "hidden_act": "gelu", "initializer_range": 0.02,
  "layer_norm_eps": 1e-12, "layer_scale_init_value": 1e-6, "image_size": 224, "num_labels": 1000})";
constexpr std::string_view kTiny =
    R"({"architecture": "convnext_tiny", "dims": [96, 192, 384, 768], "depths": [3, 3, 9, 3], "in_chans": 3, "image_size": 224, "num_classes": 1000})";
constexpr std::string_view kSmall =
    R"({"architecture": "convnext_small", "dims": [96, 192, 384, 768], "depths": [3, 3, 27, 3], "in_chans": 3, "image_size": 224, "num_classes": 1000})";
constexpr std::string_view kBase =
    R"({"architecture": "convnext_base", "dims": [128, 256, 512, 1024], "depths": [3, 3, 27, 3], "in_chans": 3, "image_size": 224, "num_classes": 1000})";

Architecture timm(std::string_view name, std::string_view config) {
  return {name, {}, "", {"head.fc.", "classifier.2."}, {Head::image_classification}, config, build_timm};
}
const RegisterArchitecture convnext_rows[] = {RegisterArchitecture{{"convnext",
                                                                    {},
                                                                    "convnext.",
                                                                    {"classifier."},
                                                                    {Head::image_classification, Head::none},
                                                                    kConfig,
                                                                    build_hugging_face}},
                                              RegisterArchitecture{timm("convnext_tiny", kTiny)},
                                              RegisterArchitecture{timm("convnext_small", kSmall)},
                                              RegisterArchitecture{timm("convnext_base", kBase)}};

}  // namespace
}  // namespace amp
