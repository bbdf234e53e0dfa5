// GPT-2 (Radford et al. 2019): pre-norm layers. The weights of linear layers are stored as (in, out), as in the Conv1D
// module of Hugging Face transformers. Query, key and value are one packed projection, split by Slice.
#include <cmath>

#include "base/error.h"
#include "models/architecture.h"
#include "models/transformer.h"

namespace amp {
namespace {

class Gpt2 {
 public:
  Gpt2(Net& net, const ModelConfig& c, const std::string& base)
      : net_(net),
        base_(base),
        width_(c.positive("n_embd")),
        heads_(c.positive("n_head")),
        layers_(c.layers("n_layer")),
        inner_(c.positive("n_inner", 4 * width_)),
        longest_(c.positive("n_positions")),
        vocabulary_(c.positive("vocab_size")),
        epsilon_(c.number("layer_norm_epsilon", 1e-5)),
        act_(c.text("activation_function", "gelu_new")),
        range_(c.number("initializer_range", 0.02)) {
    if (width_ % heads_ != 0) c.refuse("n_head", "it does not divide n_embd");
    c.require_false("scale_attn_by_inverse_layer_idx");
    c.require_false("add_cross_attention");
    if (!c.flag("scale_attn_weights", true)) c.refuse("scale_attn_weights", "only true is built");
    if (!c.flag("tie_word_embeddings", true)) c.refuse("tie_word_embeddings", "only true is built");
  }

  NetValue hidden() {
    const NetValue ids = net_.input("input_ids", DType::i64, kTokens);
    const NetValue mask = net_.input("attention_mask", DType::i64, kTokens);
    const std::string m = base_.empty() ? "" : "transformer";
    const NetValue words = net_.embedding(ids, base_ + "wte", vocabulary_, width_, Init::normal(range_));
    const NetValue places =
        net_.embedding(positions(net_, ids, m), base_ + "wpe", longest_, width_, Init::normal(range_));
    NetValue x = net_.add(words, places, m);
    const NetValue bias = net_.op("Min", m, {padding_bias(net_, mask, m), causal_bias(net_, ids, m)});
    for (int64_t i = 0; i < layers_; ++i) x = layer(x, bias, cat(base_, "h.", i));
    return net_.layer_norm(x, base_ + "ln_f", width_, epsilon_);
  }
  NetValue vocabulary_scores(NetValue x) {
    const NetValue table = net_.weight(base_ + "wte.weight", {vocabulary_, width_}, Init::normal(range_));
    return tied_scores(net_, x, table, "lm_head");
  }
  int64_t width() const { return width_; }
  int64_t vocabulary() const { return vocabulary_; }

 private:
  // A linear layer as Conv1D of Hugging Face transformers: the weight is (in, out).
  NetValue conv1d(NetValue x, const std::string& module, int64_t in, int64_t out, double deviation) {
    const NetValue w = net_.weight(module + ".weight", {in, out}, Init::normal(deviation));
    return net_.add(net_.op("MatMul", module, {x, w}), net_.weight(module + ".bias", {out}, Init::constant(0)), module);
  }
  NetValue layer(NetValue x, NetValue bias, const std::string& m) {
    // The standard deviation for projections whose results are added to the residual stream.
    const double ends = range_ / std::sqrt(2.0 * static_cast<double>(layers_));
    const std::string self = m + ".attn";
    const NetValue packed =
        conv1d(net_.layer_norm(x, m + ".ln_1", width_, epsilon_), self + ".c_attn", width_, 3 * width_, range_);
    const auto part = [&](int64_t i) {
      return net_.op(
          "Slice", self,
          {packed, net_.ints(self, {i * width_}), net_.ints(self, {(i + 1) * width_}), net_.ints(self, {2})});
    };
    const NetValue context = attention(net_, {part(0), part(1), part(2)}, bias, {heads_, width_ / heads_}, self);
    x = net_.add(conv1d(context, self + ".c_proj", width_, width_, ends), x, m);
    const NetValue wide =
        conv1d(net_.layer_norm(x, m + ".ln_2", width_, epsilon_), m + ".mlp.c_fc", width_, inner_, range_);
    return net_.add(conv1d(net_.activation(wide, act_, m + ".mlp.act"), m + ".mlp.c_proj", inner_, width_, ends), x, m);
  }

  Net& net_;
  std::string base_;
  int64_t width_, heads_, layers_, inner_, longest_, vocabulary_;
  double epsilon_;
  std::string act_;
  double range_;
};

void build_gpt2(Net& net, const ModelConfig& c, Head head) {
  Gpt2 m(net, c, head == Head::none ? "" : "transformer.");
  const NetValue x = m.hidden();
  if (head == Head::none) return net.output(x, "last_hidden_state", tokens_by(m.width()));
  net.output(m.vocabulary_scores(x), "logits", tokens_by(m.vocabulary()));
}

const RegisterArchitecture gpt2_row{{"gpt2",
                                     {},
                                     "transformer.",
                                     {},
                                     {Head::causal_lm, Head::none},
                                     R"({"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768,
  "n_layer": 12, "n_head": 12, "n_inner": null, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
  "initializer_range": 0.02})",
                                     build_gpt2}};

}  // namespace
}  // namespace amp
