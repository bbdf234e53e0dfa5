// Llama (Touvron et al. 2023, arXiv 2302.13971) and models with the same computation: SmolLM, Mistral; Qwen2, with
// biases on queries, keys and values; Qwen3, with norms on queries and keys. Sliding-window attention is refused.
#include <cmath>

#include "base/error.h"
#include "models/architecture.h"
#include "models/transformer.h"

namespace amp {
namespace {

class Llama {
 public:
  Llama(Net& net, const ModelConfig& c, const std::string& base)
      : net_(net),
        base_(base),
        width_(c.positive("hidden_size")),
        heads_(c.positive("num_attention_heads")),
        shared_(c.positive("num_key_value_heads", heads_)),
        layers_(c.layers("num_hidden_layers")),
        inner_(c.positive("intermediate_size")),
        vocabulary_(c.positive("vocab_size")),
        head_(c.positive("head_dim", std::max<int64_t>(1, width_ / heads_))),
        epsilon_(c.number("rms_norm_eps", 1e-6)),
        act_(c.text("hidden_act", "silu")),
        init_(Init::normal(c.number("initializer_range", 0.02))),
        tied_(c.flag("tie_word_embeddings", !net.weights().has("lm_head.weight"))) {
    const std::string type = c.text("model_type", "llama");
    if (heads_ % shared_ != 0) c.refuse("num_key_value_heads", "it does not divide num_attention_heads");
    if (head_ % 2 != 0) c.refuse("head_dim", "expected an even number");
    query_bias_ = type == "qwen2" || c.flag("attention_bias", false);
    out_bias_ = type != "qwen2" && c.flag("attention_bias", false);
    mlp_bias_ = c.flag("mlp_bias", false);
    head_norms_ = type == "qwen3";
    if (c.has("sliding_window") && c.flag("use_sliding_window", type == "mistral") &&
        c.positive("sliding_window") < c.positive("max_position_embeddings"))
      c.refuse("sliding_window", "attention to a window is not built", "only models that attend to everything before");
    frequencies(c);
  }

  NetValue hidden() {
    const NetValue ids = net_.input("input_ids", DType::i64, kTokens);
    const NetValue mask = net_.input("attention_mask", DType::i64, kTokens);
    const std::string m = base_.empty() ? "" : "model";
    NetValue x = net_.embedding(ids, base_ + "embed_tokens", vocabulary_, width_, init_);
    const NetValue bias = net_.op("Min", m, {padding_bias(net_, mask, m), causal_bias(net_, ids, m)});
    angles_ = rotary_angles(net_, ids, frequencies_, base_ + "rotary_emb");
    for (int64_t i = 0; i < layers_; ++i) x = layer(x, bias, cat(base_, "layers.", i));
    return norm(x, base_ + "norm", width_);
  }
  NetValue vocabulary_scores(NetValue x) {
    if (!tied_) return net_.linear_without_bias(x, "lm_head", width_, vocabulary_, init_);
    const NetValue table = net_.weight(base_ + "embed_tokens.weight", {vocabulary_, width_}, init_);
    return tied_scores(net_, x, table, "lm_head");
  }
  int64_t width() const { return width_; }
  int64_t vocabulary() const { return vocabulary_; }

 private:
  // Computes the rotary frequencies theta^(-2 i / head), i < head / 2. With rope_type llama3, low frequencies are
  // reduced further.
  void frequencies(const ModelConfig& c) {
    const ModelConfig rope = c.part({"rope_parameters", "rope_scaling"});
    const double theta = rope.number("rope_theta", c.number("rope_theta", 10000));
    const std::string type = rope.text("rope_type", rope.text("type", "default"));
    const bool scaled = type == "llama3";
    if (!scaled && type != "default") rope.refuse("rope_type", "only 'default' and 'llama3' are built");
    const double factor = rope.number("factor", 1), low = rope.number("low_freq_factor", 1),
                 high = rope.number("high_freq_factor", 4), old = rope.number("original_max_position_embeddings", 8192);
    for (int64_t i = 0; i < head_ / 2; ++i) {
      double f = std::pow(theta, -2 * static_cast<double>(i) / static_cast<double>(head_));
      const double turns = old * f / (2 * M_PI);  // turns within the context length of the original training
      if (scaled && turns < low) {
        f /= factor;
      } else if (scaled && turns < high) {
        const double smooth = (turns - low) / (high - low);
        f = (1 - smooth) * f / factor + smooth * f;
      }
      frequencies_.push_back(static_cast<float>(f));
    }
  }

  NetValue norm(NetValue x, const std::string& m, int64_t width) {
    const NetValue square = net_.op("Pow", m, {x, net_.number(m, 2)});
    const NetValue mean =
        net_.op("ReduceMean", m, {square}, {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{1}}});
    const NetValue root = net_.op("Sqrt", m, {net_.add(mean, net_.number(m, epsilon_), m)});
    const NetValue even = net_.op("Mul", m, {x, net_.op("Reciprocal", m, {root})});
    return net_.op("Mul", m, {even, net_.weight(m + ".weight", {width}, Init::constant(1))});
  }
  NetValue linear(NetValue x, const std::string& m, int64_t in, int64_t out, bool bias) {
    return bias ? net_.linear(x, m, in, out, init_, Init::constant(0)) : net_.linear_without_bias(x, m, in, out, init_);
  }

  NetValue layer(NetValue x, NetValue bias, const std::string& m) {
    const std::string self = m + ".self_attn", mlp = m + ".mlp";
    const NetValue h = norm(x, m + ".input_layernorm", width_);
    const NetValue context = attention(net_,
                                       {linear(h, self + ".q_proj", width_, heads_ * head_, query_bias_),
                                        linear(h, self + ".k_proj", width_, shared_ * head_, query_bias_),
                                        linear(h, self + ".v_proj", width_, shared_ * head_, query_bias_)},
                                       bias, {heads_, head_, shared_}, self, [&](NetValue y, bool key) {
                                         if (head_norms_) y = norm(y, self + (key ? ".k_norm" : ".q_norm"), head_);
                                         return rotate(net_, y, angles_, head_, self);
                                       });
    x = net_.add(x, linear(context, self + ".o_proj", heads_ * head_, width_, out_bias_), m);
    const NetValue g = norm(x, m + ".post_attention_layernorm", width_);
    const NetValue gate =
        net_.activation(linear(g, mlp + ".gate_proj", width_, inner_, mlp_bias_), act_, mlp + ".act_fn");
    const NetValue wide = net_.op("Mul", mlp, {gate, linear(g, mlp + ".up_proj", width_, inner_, mlp_bias_)});
    return net_.add(x, linear(wide, mlp + ".down_proj", inner_, width_, mlp_bias_), m);
  }

  Net& net_;
  std::string base_;
  int64_t width_, heads_, shared_, layers_, inner_, vocabulary_, head_;
  double epsilon_;
  std::string act_;
  Init init_;
  bool tied_, query_bias_ = false, out_bias_ = false, mlp_bias_ = false, head_norms_ = false;
  std::vector<float> frequencies_;
  RotaryAngles angles_;
};

void build_llama(Net& net, const ModelConfig& c, Head head) {
  Llama m(net, c, head == Head::none ? "" : "model.");
  const NetValue x = m.hidden();
  if (head == Head::none) return net.output(x, "last_hidden_state", tokens_by(m.width()));
  net.output(m.vocabulary_scores(x), "logits", tokens_by(m.vocabulary()));
}

const RegisterArchitecture llama_row{{"llama",
                                      {"mistral", "qwen2", "qwen3"},
                                      "model.",
                                      {},
                                      {Head::causal_lm, Head::none},
                                      R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 768,
  "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": null,
  "intermediate_size": 2048, "max_position_embeddings": 2048, "hidden_act": "silu", "rms_norm_eps": 1e-5,
  "rope_theta": 10000.0, "rope_parameters": null, "attention_bias": false, "mlp_bias": false,
  "tie_word_embeddings": true, "initializer_range": 0.02})",
                                      build_llama}};

}  // namespace
}  // namespace amp
