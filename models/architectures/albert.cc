// ALBERT (Lan et al. 2019, arXiv 1909.11942) as in Hugging Face transformers. Embeddings are narrower than the layers.
// Layers share weights by group: each weight is one initializer, which all layers of its group read.
#include "models/architecture.h"
#include "models/transformer.h"

namespace amp {
namespace {

class Albert {
 public:
  Albert(Net& net, const ModelConfig& c, const std::string& base)
      : net_(net),
        base_(base),
        width_(c.positive("hidden_size")),
        narrow_(c.positive("embedding_size")),
        heads_(c.positive("num_attention_heads")),
        layers_(c.layers("num_hidden_layers")),
        groups_(c.positive("num_hidden_groups", 1)),
        in_group_(c.positive("inner_group_num", 1)),
        inner_(c.positive("intermediate_size")),
        longest_(c.positive("max_position_embeddings")),
        types_(c.positive("type_vocab_size")),
        vocabulary_(c.positive("vocab_size")),
        epsilon_(c.number("layer_norm_eps", 1e-12)),
        act_(c.text("hidden_act", "gelu_new")),
        init_(Init::normal(c.number("initializer_range", 0.02))) {
    if (width_ % heads_ != 0) c.refuse("num_attention_heads", "it does not divide hidden_size");
    if (groups_ > layers_) c.refuse("num_hidden_groups", "it is more than num_hidden_layers");
    c.require("position_embedding_type", "absolute");
  }

  NetValue hidden() {
    const NetValue ids = net_.input("input_ids", DType::i64, kTokens);
    const NetValue mask = net_.input("attention_mask", DType::i64, kTokens);
    NetValue x = embeddings(ids, net_.input("token_type_ids", DType::i64, kTokens));
    const NetValue bias = padding_bias(net_, mask, base_.substr(0, base_.size() - (base_.empty() ? 0 : 1)));
    for (int64_t i = 0; i < layers_; ++i) {
      const int64_t group = i * groups_ / layers_;
      for (int64_t k = 0; k < in_group_; ++k)
        x = layer(x, bias, cat(base_, "encoder.albert_layer_groups.", group, ".albert_layers.", k));
    }
    return x;
  }
  NetValue pooled(NetValue x) {
    return net_.activation(linear(net_.gather(x, "", 0, 1), base_ + "pooler", width_, width_), "tanh",
                           base_ + "pooler_activation");
  }
  NetValue linear(NetValue x, const std::string& module, int64_t in, int64_t out) {
    return net_.linear(x, module, in, out, init_, Init::constant(0));
  }
  // Returns the logits over the vocabulary. The weight of this product is tied to the word embeddings.
  NetValue scores(NetValue x) {
    const std::string m = "predictions";
    x = net_.activation(linear(x, m + ".dense", width_, narrow_), act_, m + ".activation");
    x = net_.layer_norm(x, m + ".LayerNorm", narrow_, epsilon_);
    const NetValue table = net_.weight(base_ + "embeddings.word_embeddings.weight", {vocabulary_, narrow_}, init_);
    return net_.add(tied_scores(net_, x, table, m), net_.weight(m + ".bias", {vocabulary_}, Init::constant(0)), m);
  }
  int64_t width() const { return width_; }
  int64_t vocabulary() const { return vocabulary_; }

 private:
  NetValue embeddings(NetValue ids, NetValue types) {
    const std::string m = base_ + "embeddings";
    NetValue x = net_.embedding(ids, m + ".word_embeddings", vocabulary_, narrow_, init_);
    x = net_.add(x, net_.embedding(types, m + ".token_type_embeddings", types_, narrow_, init_), m);
    x = net_.add(x, net_.embedding(positions(net_, ids, m), m + ".position_embeddings", longest_, narrow_, init_), m);
    x = net_.layer_norm(x, m + ".LayerNorm", narrow_, epsilon_);
    return linear(x, base_ + "encoder.embedding_hidden_mapping_in", narrow_, width_);
  }
  NetValue layer(NetValue x, NetValue bias, const std::string& m) {
    const std::string self = m + ".attention";
    const auto dense = [&](NetValue v, const char* name) { return linear(v, self + name, width_, width_); };
    const NetValue context = attention(net_, {dense(x, ".query"), dense(x, ".key"), dense(x, ".value")}, bias,
                                       {heads_, width_ / heads_}, self);
    x = net_.layer_norm(net_.add(dense(context, ".dense"), x, self), self + ".LayerNorm", width_, epsilon_);
    const NetValue wide = net_.activation(linear(x, m + ".ffn", width_, inner_), act_, m + ".activation");
    return net_.layer_norm(net_.add(linear(wide, m + ".ffn_output", inner_, width_), x, m),
                           m + ".full_layer_layer_norm", width_, epsilon_);
  }

  Net& net_;
  std::string base_;  // "albert."; "" for the base model without a head
  int64_t width_, narrow_, heads_, layers_, groups_, in_group_, inner_, longest_, types_, vocabulary_;
  double epsilon_;
  std::string act_;
  Init init_;
};

void build_albert(Net& net, const ModelConfig& c, Head head) {
  Albert m(net, c, head == Head::none ? "" : "albert.");
  const NetValue x = m.hidden();
  const int64_t labels = c.labels();
  switch (head) {
    case Head::none:
      net.output(x, "last_hidden_state", tokens_by(m.width()));
      if (net.weights().has("pooler.weight")) net.output(m.pooled(x), "pooler_output", rows_by(m.width()));
      return;
    case Head::sequence_classification:
      return net.output(m.linear(m.pooled(x), "classifier", m.width(), labels), "logits", rows_by(labels));
    case Head::token_classification:
      return net.output(m.linear(x, "classifier", m.width(), labels), "logits", tokens_by(labels));
    case Head::question_answering:
      return output_spans(net, m.linear(x, "qa_outputs", m.width(), 2));
    default:
      return net.output(m.scores(x), "logits", tokens_by(m.vocabulary()));
  }
}

const RegisterArchitecture albert_row{
    {"albert",
     {},
     "albert.",
     {"classifier.", "qa_outputs.", "predictions."},
     {Head::sequence_classification, Head::none, Head::token_classification, Head::question_answering, Head::masked_lm},
     R"({"model_type": "albert", "vocab_size": 30000, "embedding_size": 128,
  "hidden_size": 768, "num_hidden_layers": 12, "num_hidden_groups": 1, "inner_group_num": 1, "num_attention_heads": 12,
  "intermediate_size": 3072, "hidden_act": "gelu_new", "max_position_embeddings": 512, "type_vocab_size": 2,
  "layer_norm_eps": 1e-12, "initializer_range": 0.02, "num_labels": 2})",
     build_albert}};

}  // namespace
}  // namespace amp
