// CLIP (Radford et al. 2021, arXiv 2103.00020) as in Hugging Face transformers: texts and images in one embedding
// space, or only the image tower with a classifier.
#include <cmath>

#include "models/architecture.h"
#include "models/transformer.h"
#include "models/vision.h"

namespace amp {
namespace {

double over_root(double x) { return 1 / std::sqrt(x); }

// The transformer that encodes texts, or the one that encodes images. base: the prefix of the weights' names, such as
// "text_model.".
class Tower {
 public:
  Tower(Net& net, const ModelConfig& c, std::string base, int64_t width, int64_t heads, int64_t inner)
      : net_(net),
        base_(std::move(base)),
        width_(c.positive("hidden_size", width)),
        heads_(c.positive("num_attention_heads", heads)),
        layers_(c.layers("num_hidden_layers", 12)),
        inner_(c.positive("intermediate_size", inner)),
        epsilon_(c.number("layer_norm_eps", 1e-5)),
        act_(c.text("hidden_act", "quick_gelu")) {
    if (width_ % heads_ != 0) c.refuse("num_attention_heads", "it does not divide hidden_size");
  }

  NetValue encoded(NetValue x, NetValue bias) {
    for (int64_t i = 0; i < layers_; ++i) x = layer(x, bias, cat(base_, "encoder.layers.", i));
    return x;
  }
  NetValue norm(NetValue x, const std::string& name) { return net_.layer_norm(x, base_ + name, width_, epsilon_); }
  NetValue weight(const std::string& name, const Dims& dims, double deviation) {
    return net_.weight(base_ + name, dims, Init::normal(deviation));
  }
  int64_t width() const { return width_; }

 private:
  NetValue layer(NetValue x, NetValue bias, const std::string& m) {
    const std::string self = m + ".self_attn";
    const double wide = over_root(static_cast<double>(width_));
    const Init in = Init::normal(wide * over_root(2 * static_cast<double>(layers_))), out = Init::normal(wide),
               first = Init::normal(over_root(2 * static_cast<double>(width_))), none = Init::constant(0);
    const NetValue h = net_.layer_norm(x, m + ".layer_norm1", width_, epsilon_);
    const auto project = [&](const char* name) { return net_.linear(h, self + name, width_, width_, in, none); };
    const NetValue context = attention(net_, {project(".q_proj"), project(".k_proj"), project(".v_proj")}, bias,
                                       {heads_, width_ / heads_}, self);
    x = net_.add(x, net_.linear(context, self + ".out_proj", width_, width_, out, none), m);
    const NetValue g = net_.layer_norm(x, m + ".layer_norm2", width_, epsilon_);
    const NetValue middle =
        net_.activation(net_.linear(g, m + ".mlp.fc1", width_, inner_, first, none), act_, m + ".mlp.activation_fn");
    return net_.add(x, net_.linear(middle, m + ".mlp.fc2", inner_, width_, in, none), m);
  }

  Net& net_;
  std::string base_;
  int64_t width_, heads_, layers_, inner_;
  double epsilon_;
  std::string act_;
};

// Returns the hidden state at the end token of each text: (B, width).
NetValue text_state(Net& net, Tower& t, const ModelConfig& c, NetValue ids, NetValue mask) {
  const std::string m = "text_model";
  const int64_t longest = c.positive("max_position_embeddings", 77), rows = c.positive("vocab_size", 49408);
  const auto end = static_cast<int64_t>(c.number("eos_token_id", 49407));
  NetValue x = net.embedding(ids, m + ".embeddings.token_embedding", rows, t.width(), Init::normal(0.02));
  x = net.add(x,
              net.embedding(positions(net, ids, m), m + ".embeddings.position_embedding", longest, t.width(),
                            Init::normal(0.02)),
              m);
  const NetValue bias = net.op("Min", m, {padding_bias(net, mask, m), causal_bias(net, ids, m)});
  x = t.norm(t.encoded(x, bias), "final_layer_norm");
  // Find the first end token. If eos_token_id is 2 (old files), the end token is the token with the largest id instead.
  const NetValue marks = end == 2 ? ids : net.op("Equal", m, {ids, net.integer(m, end)}, {}, DType::boolean);
  const NetValue place = net.op("ArgMax", m, {net.cast(marks, m, DType::i32)},
                                {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}, DType::i64);
  const NetValue everywhere = net.op(
      "Expand", m, {net.unsqueeze(place, m, {1, 2}, DType::i64), net.ints(m, {1, 1, t.width()})}, {}, DType::i64);
  const NetValue one = net.op("GatherElements", m, {x, everywhere}, {{"axis", int64_t{1}}});
  return net.op("Squeeze", m, {one, net.ints(m, {1})});
}

// Returns the image tower's hidden states before the final norm: (B, 1 + patches, width), the class token first.
NetValue image_states(Net& net, Tower& t, const ModelConfig& c) {
  const std::string m = "vision_model";
  const int64_t size = c.positive("image_size", 224), patch = c.positive("patch_size", 32),
                channels = c.positive("num_channels", 3), side = size / patch, width = t.width();
  if (size % patch != 0) c.refuse("patch_size", "it does not divide image_size");
  const double range = c.number("initializer_range", 0.02);
  const NetValue image =
      net.input("pixel_values", DType::f32, {{-1, "image_batch_size"}, {channels, ""}, {size, ""}, {size, ""}});
  NetValue x = conv(net, image, m + ".embeddings.patch_embedding", {channels, width, patch, patch}, Init::normal(range),
                    std::nullopt);
  x = net.transpose(net.reshape(x, m, {0, width, side * side}), m, {0, 2, 1});
  const NetValue token = t.weight("embeddings.class_embedding", {width}, over_root(static_cast<double>(width)));
  x = with_class_token(net, x, token, image, width, m);
  x = net.add(x, t.weight("embeddings.position_embedding.weight", {side * side + 1, width}, range), m);
  return t.encoded(t.norm(x, "pre_layrnorm"), -1);  // the checkpoints have this spelling
}

// Projects x (B, width) to (B, to) and normalizes each row to length 1.
NetValue embedded(Net& net, NetValue x, const std::string& module, int64_t width, int64_t to) {
  const NetValue y = net.linear_without_bias(x, module, width, to, Init::normal(over_root(static_cast<double>(width))));
  const NetValue length =
      net.op("ReduceL2", module, {y}, {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{1}}});
  return net.op("Div", module, {y, length});
}

void build_clip(Net& net, const ModelConfig& c, Head head) {
  const ModelConfig text = c.part({"text_config"}), vision = c.part({"vision_config"});
  Tower images(net, vision, "vision_model.", 768, 12, 3072);
  if (head == Head::image_classification) {
    const int64_t width = images.width(), labels = c.labels();
    const NetValue x = image_states(net, images, vision);
    const NetValue patches = net.op("Slice", "", {x, net.ints("", {1}), net.ints("", {INT64_MAX}), net.ints("", {1})});
    const NetValue mean =
        net.op("ReduceMean", "", {patches}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
    const Init drawn = Init::normal(over_root(static_cast<double>(width)));
    return net.output(net.linear(mean, "classifier", width, labels, drawn, Init::constant(0)), "logits",
                      {{-1, "image_batch_size"}, {labels, ""}});
  }
  const int64_t space = c.positive("projection_dim", 512);
  Tower texts(net, text, "text_model.", 512, 8, 2048);
  const NetValue ids = net.input("input_ids", DType::i64, kTokens);
  const NetValue mask = net.input("attention_mask", DType::i64, kTokens);
  const NetValue states = image_states(net, images, vision);
  const NetValue image = embedded(net, images.norm(net.gather(states, "vision_model", 0, 1), "post_layernorm"),
                                  "visual_projection", images.width(), space);
  const NetValue sentence =
      embedded(net, text_state(net, texts, text, ids, mask), "text_projection", texts.width(), space);
  const NetValue scale =
      net.op("Exp", "", {net.weight("logit_scale", {}, Init::constant(c.number("logit_scale_init_value", 2.6592)))});
  const NetValue alike = net.op("MatMul", "", {sentence, net.transpose(image, "", {1, 0})});
  const NetValue logits = net.op("Mul", "", {alike, scale});
  net.output(net.transpose(logits, "", {1, 0}), "logits_per_image", {{-1, "image_batch_size"}, {-1, "batch_size"}});
  net.output(logits, "logits_per_text", {{-1, "batch_size"}, {-1, "image_batch_size"}});
  net.output(sentence, "text_embeds", rows_by(space));
  net.output(image, "image_embeds", {{-1, "image_batch_size"}, {space, ""}});
}

const RegisterArchitecture clip_row{{"clip",
                                     {},
                                     "",
                                     {"classifier."},
                                     {Head::none, Head::image_classification},
                                     R"({"model_type": "clip", "projection_dim": 512, "logit_scale_init_value": 2.6592,
  "num_labels": 2,
  "text_config": {"vocab_size": 49408, "hidden_size": 512, "num_hidden_layers": 12, "num_attention_heads": 8,
    "intermediate_size": 2048, "hidden_act": "quick_gelu", "max_position_embeddings": 77, "layer_norm_eps": 1e-5,
    "eos_token_id": 49407},
  "vision_config": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "hidden_act": "quick_gelu", "image_size": 224, "patch_size": 32, "num_channels": 3, "layer_norm_eps": 1e-5,
    "initializer_range": 0.02}})",
                                     build_clip}};

}  // namespace
}  // namespace amp
