// ViT (Dosovitskiy et al. 2020, arXiv 2010.11929) as in Hugging Face transformers: patch embeddings by a strided
// convolution, a class token, learned positions, pre-norm layers.
#include "base/error.h"
#include "models/architecture.h"
#include "models/transformer.h"
#include "models/vision.h"

namespace amp {
namespace {

class Vit {
 public:
  Vit(Net& net, const ModelConfig& c, const std::string& base)
      : net_(net),
        base_(base),
        width_(c.positive("hidden_size")),
        heads_(c.positive("num_attention_heads")),
        layers_(c.layers("num_hidden_layers")),
        inner_(c.positive("intermediate_size")),
        image_(c.positive("image_size")),
        patch_(c.positive("patch_size")),
        channels_(c.positive("num_channels", 3)),
        epsilon_(c.number("layer_norm_eps", 1e-12)),
        act_(c.text("hidden_act", "gelu")),
        init_(Init::normal(c.number("initializer_range", 0.02))),
        qkv_bias_(c.flag("qkv_bias", true)) {
    if (width_ % heads_ != 0) c.refuse("num_attention_heads", "it does not divide hidden_size");
    if (image_ % patch_ != 0) c.refuse("patch_size", "it does not divide image_size");
  }

  NetValue hidden() {
    NetValue x = embeddings(net_.input("pixel_values", DType::f32, images_by(channels_, image_, image_)));
    for (int64_t i = 0; i < layers_; ++i) x = layer(x, cat(base_, "encoder.layer.", i));
    return norm(x, base_ + "layernorm");
  }
  NetValue class_token(NetValue x) { return net_.gather(x, "", 0, 1); }
  NetValue linear(NetValue x, const std::string& m, int64_t in, int64_t out) {
    return net_.linear(x, m, in, out, init_, Init::constant(0));
  }
  int64_t width() const { return width_; }

 private:
  NetValue norm(NetValue x, const std::string& m) { return net_.layer_norm(x, m, width_, epsilon_); }

  NetValue embeddings(NetValue image) {
    const std::string m = base_ + "embeddings", p = m + ".patch_embeddings.projection";
    const int64_t side = image_ / patch_, patches = side * side;
    NetValue x = net_.op(
        "Conv", p,
        {image, net_.weight(p + ".weight", {width_, channels_, patch_, patch_}, init_),
         net_.weight(p + ".bias", {width_}, Init::constant(0))},
        {{"kernel_shape", std::vector<int64_t>{patch_, patch_}}, {"strides", std::vector<int64_t>{patch_, patch_}}});
    x = net_.transpose(net_.reshape(x, m, {0, width_, patches}), m, {0, 2, 1});
    x = with_class_token(net_, x, net_.weight(m + ".cls_token", {1, 1, width_}, init_), image, width_, m);
    return net_.add(x, net_.weight(m + ".position_embeddings", {1, patches + 1, width_}, init_), m);
  }

  NetValue layer(NetValue x, const std::string& m) {
    const std::string self = m + ".attention.attention", out = m + ".attention.output.dense";
    const NetValue h = norm(x, m + ".layernorm_before");
    const auto project = [&](const char* name) {
      return qkv_bias_ ? linear(h, self + name, width_, width_)
                       : net_.linear_without_bias(h, self + name, width_, width_, init_);
    };
    const NetValue context =
        attention(net_, {project(".query"), project(".key"), project(".value")}, -1, {heads_, width_ / heads_}, self);
    x = net_.add(linear(context, out, width_, width_), x, m);
    NetValue wide = linear(norm(x, m + ".layernorm_after"), m + ".intermediate.dense", width_, inner_);
    wide = net_.activation(wide, act_, m + ".intermediate.intermediate_act_fn");
    return net_.add(linear(wide, m + ".output.dense", inner_, width_), x, m + ".output");
  }

  Net& net_;
  std::string base_;
  int64_t width_, heads_, layers_, inner_, image_, patch_, channels_;
  double epsilon_;
  std::string act_;
  Init init_;
  bool qkv_bias_;
};

void build_vit(Net& net, const ModelConfig& c, Head head) {
  Vit m(net, c, head == Head::none ? "" : "vit.");
  const NetValue x = m.hidden();
  if (head == Head::none) {
    net.output(x, "last_hidden_state", tokens_by(m.width()));
    if (!net.weights().has("pooler.dense.weight")) return;
    const NetValue pooled = m.linear(m.class_token(x), "pooler.dense", m.width(), m.width());
    return net.output(net.activation(pooled, c.text("pooler_act", "tanh"), "pooler"), "pooler_output",
                      rows_by(m.width()));
  }
  net.output(m.linear(m.class_token(x), "classifier", m.width(), c.labels()), "logits", rows_by(c.labels()));
}

const RegisterArchitecture vit_row{{"vit",
                                    {},
                                    "vit.",
                                    {"classifier."},
                                    {Head::image_classification, Head::none},
                                    R"({"model_type": "vit", "hidden_size": 768, "num_hidden_layers": 12,
  "num_attention_heads": 12, "intermediate_size": 3072, "hidden_act": "gelu", "image_size": 224, "patch_size": 16,
  "num_channels": 3, "qkv_bias": true, "layer_norm_eps": 1e-12, "initializer_range": 0.02, "num_labels": 1000})",
                                    build_vit}};

}  // namespace
}  // namespace amp
