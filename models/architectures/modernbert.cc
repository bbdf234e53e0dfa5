// ModernBERT (Warner et al. 2024, arXiv 2412.13663) as in Hugging Face transformers: rotary positions, pre-norm, gated
// layers without biases. Most layers use local attention; the others attend to all positions and have another rotary
// base.
#include <cmath>

#include "models/architecture.h"
#include "models/transformer.h"

namespace amp {
namespace {

class ModernBert {
 public:
  ModernBert(Net& net, const ModelConfig& c, const std::string& base)
      : net_(net),
        base_(base),
        width_(c.positive("hidden_size")),
        heads_(c.positive("num_attention_heads")),
        layers_(c.layers("num_hidden_layers")),
        inner_(c.positive("intermediate_size")),
        vocabulary_(c.positive("vocab_size")),
        window_(c.positive("local_attention", 128) / 2),
        epsilon_(c.number("norm_eps", 1e-5)),
        act_(c.text("hidden_activation", "gelu")),
        head_act_(c.text("classifier_activation", "gelu")),
        deviation_(c.number("initializer_range", 0.02)),
        cutoff_(c.number("initializer_cutoff_factor", 2)),
        norm_bias_(c.flag("norm_bias", false)),
        attention_bias_(c.flag("attention_bias", false)),
        mlp_bias_(c.flag("mlp_bias", false)),
        head_bias_(c.flag("classifier_bias", false)) {
    if (width_ % heads_ != 0 || width_ / heads_ % 2 != 0)
      c.refuse("num_attention_heads", "it does not divide hidden_size into even parts");
    if (!(cutoff_ >= 0.5)) c.refuse("initializer_cutoff_factor", "expected a number of at least 0.5");
    kinds(c);
  }

  NetValue hidden() {
    const NetValue ids = net_.input("input_ids", DType::i64, kTokens);
    mask_ = net_.input("attention_mask", DType::i64, kTokens);
    const std::string m = base_.empty() ? "" : "model";
    NetValue x = net_.embedding(ids, base_ + "embeddings.tok_embeddings", vocabulary_, width_, drawn(deviation_));
    x = norm(x, base_ + "embeddings.norm");
    const NetValue all = padding_bias(net_, mask_, m);
    const NetValue near = net_.op("Min", m, {all, window_bias(net_, ids, window_, m)});
    for (const bool whole : {true, false}) {
      const std::string at = base_ + (whole ? "rotary_emb" : "local_rotary_emb");
      (whole ? whole_ : near_) = rotary_angles(net_, ids, rotary_frequencies(theta_[whole ? 0 : 1], head()), at);
    }
    for (int64_t i = 0; i < layers_; ++i) {
      const bool whole = attends_to_all_[static_cast<size_t>(i)];
      x = layer(x, i, whole ? all : near, whole ? whole_ : near_, cat(base_, "layers.", i));
    }
    return norm(x, base_ + "final_norm");
  }
  // Applies the layers between the encoder and each classifier: dense, activation and norm. x is (..., width).
  NetValue transformed(NetValue x) {
    x = net_.activation(linear(x, "head.dense", width_, width_, drawn(small()), head_bias_), head_act_, "head");
    return norm(x, "head.norm");
  }
  NetValue classified(NetValue x, int64_t labels) {
    const double deviation = 1 / std::sqrt(static_cast<double>(width_));
    return linear(transformed(x), "classifier", width_, labels, drawn(deviation), true);
  }
  NetValue first_token(NetValue x) { return net_.gather(x, "", 0, 1); }
  NetValue mean_token(NetValue x) {
    const auto sum = [&](NetValue v) {
      return net_.op("ReduceSum", "", {v, net_.ints("", {1})}, {{"keepdims", int64_t{0}}});
    };
    const NetValue mask = net_.cast(net_.unsqueeze(mask_, "", {2}, DType::i64), "", DType::f32);
    const NetValue total = sum(net_.op("Mul", "", {x, mask}));
    return net_.op("Div", "", {total, sum(mask)});
  }
  NetValue vocabulary_scores(NetValue x, bool bias) {
    const NetValue table =
        net_.weight(base_ + "embeddings.tok_embeddings.weight", {vocabulary_, width_}, drawn(deviation_));
    const NetValue y = tied_scores(net_, transformed(x), table, "decoder");
    return bias ? net_.add(y, net_.weight("decoder.bias", {vocabulary_}, Init::constant(0)), "decoder") : y;
  }
  int64_t width() const { return width_; }
  int64_t vocabulary() const { return vocabulary_; }

 private:
  // Reads which layers attend to all positions, and the rotary bases for global and for local attention.
  void kinds(const ModelConfig& c) {
    const std::vector<std::string> types = c.has("layer_types") ? c.texts("layer_types") : std::vector<std::string>();
    const int64_t every = c.positive("global_attn_every_n_layers", 3);
    if (!types.empty() && static_cast<int64_t>(types.size()) != layers_)
      c.refuse("layer_types", "expected a text for each layer");
    for (int64_t i = 0; i < layers_; ++i)
      attends_to_all_.push_back(types.empty() ? i % every == 0 : types[static_cast<size_t>(i)] == "full_attention");
    const ModelConfig rope = c.part({"rope_parameters"});
    const char* const names[] = {"full_attention", "sliding_attention"};
    const double otherwise[] = {c.number("global_rope_theta", 160000), c.number("local_rope_theta", 10000)};
    for (size_t k = 0; k < 2; ++k) {
      const ModelConfig part = rope.part({names[k]});
      if (part.text("rope_type", "default") != "default") part.refuse("rope_type", "only 'default' is built");
      theta_[k] = part.number("rope_theta", otherwise[k]);
    }
  }

  int64_t head() const { return width_ / heads_; }
  double small() const { return deviation_ / std::sqrt(2.0 * static_cast<double>(layers_)); }
  Init drawn(double deviation) const { return Init::truncated(deviation, cutoff_); }
  NetValue norm(NetValue x, const std::string& m) {
    return norm_bias_ ? net_.layer_norm(x, m, width_, epsilon_) : net_.layer_norm_without_bias(x, m, width_, epsilon_);
  }
  NetValue linear(NetValue x, const std::string& m, int64_t in, int64_t out, const Init& w, bool bias) {
    return bias ? net_.linear(x, m, in, out, w, Init::constant(0)) : net_.linear_without_bias(x, m, in, out, w);
  }
  // Splits x along the last axis into `number` parts of `width` elements.
  std::vector<NetValue> parts(NetValue x, const std::string& m, int64_t number, int64_t width) {
    std::vector<NetValue> out;
    for (int64_t k = 0; k < number; ++k)
      out.push_back(
          net_.op("Slice", m, {x, net_.ints(m, {k * width}), net_.ints(m, {(k + 1) * width}), net_.ints(m, {-1})}));
    return out;
  }

  NetValue layer(NetValue x, int64_t i, NetValue bias, const RotaryAngles& angles, const std::string& m) {
    const std::string self = m + ".attn", mlp = m + ".mlp";
    const NetValue h = i == 0 ? x : norm(x, m + ".attn_norm");
    const std::vector<NetValue> qkv =
        parts(linear(h, self + ".Wqkv", width_, 3 * width_, drawn(deviation_), attention_bias_), self, 3, width_);
    const NetValue context = attention(net_, {qkv[0], qkv[1], qkv[2]}, bias, {heads_, head()}, self,
                                       [&](NetValue y, bool) { return rotate(net_, y, angles, head(), self); });
    x = net_.add(x, linear(context, self + ".Wo", width_, width_, drawn(small()), attention_bias_), m);
    const NetValue wide =
        linear(norm(x, m + ".mlp_norm"), mlp + ".Wi", width_, 2 * inner_, drawn(deviation_), mlp_bias_);
    const std::vector<NetValue> halves = parts(wide, mlp, 2, inner_);
    const NetValue gated = net_.op("Mul", mlp, {net_.activation(halves[0], act_, mlp + ".act"), halves[1]});
    return net_.add(x, linear(gated, mlp + ".Wo", inner_, width_, drawn(small()), mlp_bias_), m);
  }

  Net& net_;
  std::string base_;  // "model."; "" for the base model without a head
  int64_t width_, heads_, layers_, inner_, vocabulary_, window_;
  double epsilon_;
  std::string act_, head_act_;
  double deviation_, cutoff_;
  bool norm_bias_, attention_bias_, mlp_bias_, head_bias_;
  std::vector<bool> attends_to_all_;
  double theta_[2] = {};
  RotaryAngles whole_, near_;
  NetValue mask_ = -1;
};

void build_modernbert(Net& net, const ModelConfig& c, Head head) {
  ModernBert m(net, c, head == Head::none ? "" : "model.");
  const NetValue x = m.hidden();
  const int64_t labels = c.labels();
  switch (head) {
    case Head::none:
      return net.output(x, "last_hidden_state", tokens_by(m.width()));
    case Head::sequence_classification: {
      const bool mean = c.text("classifier_pooling", "cls") == "mean";
      return net.output(m.classified(mean ? m.mean_token(x) : m.first_token(x), labels), "logits", rows_by(labels));
    }
    case Head::token_classification:
      return net.output(m.classified(x, labels), "logits", tokens_by(labels));
    case Head::question_answering:
      return output_spans(net, m.classified(x, 2));
    default:
      return net.output(m.vocabulary_scores(x, c.flag("decoder_bias", true)), "logits", tokens_by(m.vocabulary()));
  }
}

const RegisterArchitecture modernbert_row{
    {"modernbert",
     {},
     "model.",
     {"classifier.", "head.", "decoder."},
     {Head::sequence_classification, Head::none, Head::token_classification, Head::question_answering, Head::masked_lm},
     R"({"model_type": "modernbert", "vocab_size": 50368, "hidden_size": 768,
  "num_hidden_layers": 22, "num_attention_heads": 12, "intermediate_size": 1152, "hidden_activation": "gelu",
  "max_position_embeddings": 8192, "local_attention": 128, "global_attn_every_n_layers": 3, "layer_types": null,
  "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "rope_parameters": null, "norm_eps": 1e-5,
  "norm_bias": false, "attention_bias": false, "mlp_bias": false, "classifier_bias": false,
  "classifier_activation": "gelu", "classifier_pooling": "cls", "decoder_bias": true, "initializer_range": 0.02,
  "initializer_cutoff_factor": 2.0, "num_labels": 2})",
     build_modernbert}};

}  // namespace
}  // namespace amp
