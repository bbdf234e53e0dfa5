// DistilBERT (Sanh et al. 2019, arXiv 1910.01108): BERT without token types and pooler, with other module names. The
// projection to the vocabulary is tied to the word embeddings.
#include "base/error.h"
#include "models/architecture.h"
#include "models/transformer.h"

namespace amp {
namespace {

class DistilBert {
 public:
  DistilBert(Net& net, const ModelConfig& c, const std::string& base)
      : net_(net),
        base_(base),
        width_(c.positive("dim")),
        heads_(c.positive("n_heads")),
        layers_(c.layers("n_layers")),
        inner_(c.positive("hidden_dim")),
        longest_(c.positive("max_position_embeddings")),
        vocabulary_(c.positive("vocab_size")),
        act_(c.text("activation", "gelu")),
        init_(Init::normal(c.number("initializer_range", 0.02))) {
    if (width_ % heads_ != 0) c.refuse("n_heads", "it does not divide dim");
  }

  NetValue hidden() {
    const NetValue ids = net_.input("input_ids", DType::i64, kTokens);
    const NetValue mask = net_.input("attention_mask", DType::i64, kTokens);
    const std::string m = base_ + "embeddings";
    const NetValue words = net_.embedding(ids, m + ".word_embeddings", vocabulary_, width_, init_);
    const NetValue places =
        net_.embedding(positions(net_, ids, m), m + ".position_embeddings", longest_, width_, init_);
    NetValue x = norm(net_.add(words, places, m), m + ".LayerNorm");
    const NetValue bias = padding_bias(net_, mask, base_ + "transformer");
    for (int64_t i = 0; i < layers_; ++i) x = layer(x, bias, cat(base_, "transformer.layer.", i));
    return x;
  }
  NetValue linear(NetValue x, const std::string& module, int64_t in, int64_t out) {
    return net_.linear(x, module, in, out, init_, Init::constant(0));
  }
  NetValue norm(NetValue x, const std::string& module) { return net_.layer_norm(x, module, width_, 1e-12); }
  NetValue classify(NetValue x, int64_t labels) {
    x = linear(net_.gather(x, "", 0, 1), "pre_classifier", width_, width_);
    return linear(net_.activation(x, "relu", "pre_classifier"), "classifier", width_, labels);
  }
  NetValue vocabulary_scores(NetValue x) {
    const std::string m = "vocab_projector";
    x = norm(net_.activation(linear(x, "vocab_transform", width_, width_), act_, "vocab_transform"),
             "vocab_layer_norm");
    const NetValue table =
        // The projection's weight is tied to the word embeddings.
        net_.weight(base_ + "embeddings.word_embeddings.weight", {vocabulary_, width_}, init_);
    const NetValue products = net_.op("MatMul", m, {x, net_.transpose(table, m, {1, 0})});
    return net_.add(products, net_.weight(m + ".bias", {vocabulary_}, Init::constant(0)), m);
  }
  int64_t width() const { return width_; }
  int64_t vocabulary() const { return vocabulary_; }

 private:
  NetValue layer(NetValue x, NetValue bias, const std::string& m) {
    const std::string self = m + ".attention";
    const auto project = [&](const char* name) { return linear(x, self + name, width_, width_); };
    const NetValue context = attention(net_, {project(".q_lin"), project(".k_lin"), project(".v_lin")}, bias,
                                       {heads_, width_ / heads_}, self);
    x = norm(net_.add(linear(context, self + ".out_lin", width_, width_), x, m), m + ".sa_layer_norm");
    const NetValue wide = net_.activation(linear(x, m + ".ffn.lin1", width_, inner_), act_, m + ".ffn");
    return norm(net_.add(linear(wide, m + ".ffn.lin2", inner_, width_), x, m), m + ".output_layer_norm");
  }

  Net& net_;
  std::string base_;
  int64_t width_, heads_, layers_, inner_, longest_, vocabulary_;
  std::string act_;
  Init init_;
};

void build_distilbert(Net& net, const ModelConfig& c, Head head) {
  DistilBert m(net, c, head == Head::none ? "" : "distilbert.");
  const NetValue x = m.hidden();
  const int64_t labels = c.labels();
  switch (head) {
    case Head::none:
      return net.output(x, "last_hidden_state", tokens_by(m.width()));
    case Head::sequence_classification:
      return net.output(m.classify(x, labels), "logits", rows_by(labels));
    case Head::token_classification:
      return net.output(m.linear(x, "classifier", m.width(), labels), "logits", tokens_by(labels));
    case Head::question_answering:
      return output_spans(net, m.linear(x, "qa_outputs", m.width(), 2));
    default:
      return net.output(m.vocabulary_scores(x), "logits", tokens_by(m.vocabulary()));
  }
}

const RegisterArchitecture distilbert_row{
    {"distilbert",
     {},
     "distilbert.",
     {"pre_classifier.", "classifier.", "qa_outputs.", "vocab_"},
     {Head::sequence_classification, Head::none, Head::token_classification, Head::question_answering, Head::masked_lm},
     R"({"model_type": "distilbert", "vocab_size": 30522, "dim": 768, "n_layers": 6,
  "n_heads": 12, "hidden_dim": 3072, "activation": "gelu", "max_position_embeddings": 512, "initializer_range": 0.02,
  "num_labels": 2})",
     build_distilbert}};

}  // namespace
}  // namespace amp
