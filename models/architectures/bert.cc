// BERT (Devlin et al. 2018, arXiv 1810.04805) and models with the same computation: MiniLM; RoBERTa, XLM-R and
// CamemBERT, whose positions start after the padding token's id; ELECTRA, whose embeddings may be narrower than its
// layers. BERT, RoBERTa and ELECTRA differ in position ids, heads and names of weights (Kind).
#include "base/error.h"
#include "base/text.h"
#include "models/architecture.h"
#include "models/transformer.h"

namespace amp {
namespace {

enum class Kind { bert, roberta, electra };

class Bert {
 public:
  Bert(Net& net, const ModelConfig& c, Kind kind, const std::string& base)
      : net_(net),
        kind_(kind),
        base_(base),
        width_(c.positive("hidden_size")),
        heads_(c.positive("num_attention_heads")),
        layers_(c.layers("num_hidden_layers")),
        inner_(c.positive("intermediate_size")),
        longest_(c.positive("max_position_embeddings")),
        types_(c.positive("type_vocab_size")),
        vocabulary_(c.positive("vocab_size")),
        narrow_(kind == Kind::electra ? c.positive("embedding_size", width_) : width_),
        epsilon_(c.number("layer_norm_eps", 1e-12)),
        act_(c.text("hidden_act", "gelu")),
        init_(Init::normal(c.number("initializer_range", 0.02))) {
    if (width_ % heads_ != 0) c.refuse("num_attention_heads", "it does not divide hidden_size");
    c.require("position_embedding_type", "absolute");
    c.require_false("is_decoder");
    c.require_false("add_cross_attention");
    if (kind == Kind::roberta) padding_ = static_cast<int64_t>(c.number("pad_token_id", 1));
  }

  NetValue hidden() {
    const NetValue ids = net_.input("input_ids", DType::i64, kTokens);
    const NetValue mask = net_.input("attention_mask", DType::i64, kTokens);
    NetValue x = embeddings(ids, kind_ == Kind::roberta ? -1 : net_.input("token_type_ids", DType::i64, kTokens));
    const NetValue bias = padding_bias(net_, mask, base_.substr(0, base_.size() - (base_.empty() ? 0 : 1)));
    for (int64_t i = 0; i < layers_; ++i) x = layer(x, bias, cat(base_, "encoder.layer.", i));
    return x;
  }
  NetValue first_token(NetValue x) { return net_.gather(x, "", 0, 1); }
  NetValue pooled(NetValue x) {
    return net_.activation(dense(first_token(x), base_ + "pooler.dense"), "tanh", base_ + "pooler.activation");
  }
  NetValue dense(NetValue x, const std::string& module) { return linear(x, module, width_, width_); }
  NetValue linear(NetValue x, const std::string& module, int64_t in, int64_t out) {
    return net_.linear(x, module, in, out, init_, Init::constant(0));
  }
  NetValue norm(NetValue x, const std::string& module, int64_t width) {
    return net_.layer_norm(x, module, width, epsilon_);
  }
  // Returns the logits over the vocabulary for x (B, S, narrow). The decoder's weight is the table of word embeddings.
  NetValue decode(NetValue x, const std::string& module, const std::string& bias) {
    const NetValue table = net_.weight(base_ + "embeddings.word_embeddings.weight", {vocabulary_, narrow_}, init_);
    return net_.add(tied_scores(net_, x, table, module), net_.weight(bias, {vocabulary_}, Init::constant(0)), module);
  }

  int64_t width() const { return width_; }
  int64_t narrow() const { return narrow_; }
  int64_t vocabulary() const { return vocabulary_; }
  const std::string& act() const { return act_; }

 private:
  NetValue embeddings(NetValue ids, NetValue types) {
    const std::string m = base_ + "embeddings";
    NetValue x = net_.embedding(ids, m + ".word_embeddings", vocabulary_, narrow_, init_);
    if (types < 0) types = net_.ints(m, {0});
    x = net_.add(x, net_.embedding(types, m + ".token_type_embeddings", types_, narrow_, init_), m);
    const NetValue places = kind_ == Kind::roberta ? positions_after_padding(ids, m) : positions(net_, ids, m);
    x = net_.add(x, net_.embedding(places, m + ".position_embeddings", longest_, narrow_, init_), m);
    x = norm(x, m + ".LayerNorm", narrow_);
    return narrow_ == width_ ? x : linear(x, base_ + "embeddings_project", narrow_, width_);
  }

  // Returns the positions padding + 1, padding + 2, ... for tokens, and the position `padding` for padding tokens.
  NetValue positions_after_padding(NetValue ids, const std::string& m) {
    const NetValue padding = net_.integer(m, padding_);
    const NetValue token =
        net_.cast(net_.op("Not", m, {net_.op("Equal", m, {ids, padding}, {}, DType::boolean)}, {}, DType::boolean), m,
                  DType::i64);
    const NetValue count = net_.op("CumSum", m, {token, net_.integer(m, 1)}, {}, DType::i64);
    return net_.add(net_.op("Mul", m, {count, token}, {}, DType::i64), padding, m, DType::i64);
  }

  NetValue layer(NetValue x, NetValue bias, const std::string& m) {
    const std::string self = m + ".attention.self";
    const NetValue context =
        attention(net_, {dense(x, self + ".query"), dense(x, self + ".key"), dense(x, self + ".value")}, bias,
                  {heads_, width_ / heads_}, self);
    const std::string out = m + ".attention.output";
    x = norm(net_.add(dense(context, out + ".dense"), x, out), out + ".LayerNorm", width_);
    NetValue wide = linear(x, m + ".intermediate.dense", width_, inner_);
    wide = net_.activation(wide, act_, m + ".intermediate.intermediate_act_fn");
    return norm(net_.add(linear(wide, m + ".output.dense", inner_, width_), x, m + ".output"), m + ".output.LayerNorm",
                width_);
  }

  Net& net_;
  Kind kind_;
  std::string base_;  // "bert."; "" for the base model without a head
  int64_t width_, heads_, layers_, inner_, longest_, types_, vocabulary_, narrow_;
  double epsilon_;
  std::string act_;
  Init init_;
  int64_t padding_ = 0;
};

// Builds the classifier of RoBERTa and ELECTRA on the first token: dense, activation, out_proj.
NetValue two_layers(Net& net, Bert& bert, NetValue x, int64_t labels, const std::string& act) {
  x = net.activation(bert.dense(bert.first_token(x), "classifier.dense"), act, "classifier");
  return bert.linear(x, "classifier.out_proj", bert.width(), labels);
}

// Builds the head of a masked language model: dense, activation, norm, decoder.
NetValue vocabulary_scores(Net& net, Bert& bert, NetValue x, const std::string& dense, const std::string& norm,
                           const std::string& decoder, const std::string& bias, const std::string& act) {
  x = net.activation(bert.linear(x, dense, bert.width(), bert.narrow()), act, dense);
  return bert.decode(bert.norm(x, norm, bert.narrow()), decoder, bias);
}

void build(Net& net, const ModelConfig& c, Head head, Kind kind, const std::string& prefix) {
  Bert bert(net, c, kind, head == Head::none ? "" : prefix);
  const NetValue x = bert.hidden();
  const int64_t labels = c.labels();
  switch (head) {
    case Head::none:
      net.output(x, "last_hidden_state", tokens_by(bert.width()));
      if (kind != Kind::electra && net.weights().has("pooler.dense.weight"))
        net.output(bert.pooled(x), "pooler_output", rows_by(bert.width()));
      return;
    case Head::sequence_classification:
      if (kind == Kind::bert)
        return net.output(bert.linear(bert.pooled(x), "classifier", bert.width(), labels), "logits", rows_by(labels));
      return net.output(two_layers(net, bert, x, labels, kind == Kind::roberta ? "tanh" : "gelu"), "logits",
                        rows_by(labels));
    case Head::token_classification:
      return net.output(bert.linear(x, "classifier", bert.width(), labels), "logits", tokens_by(labels));
    case Head::question_answering:
      return output_spans(net, bert.linear(x, "qa_outputs", bert.width(), 2));
    default: {
      const std::string p = "cls.predictions.";
      const NetValue scores =
          kind == Kind::bert ? vocabulary_scores(net, bert, x, p + "transform.dense", p + "transform.LayerNorm",
                                                 p + "decoder", p + "bias", bert.act())
          : kind == Kind::roberta
              ? vocabulary_scores(net, bert, x, "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder",
                                  "lm_head.bias", "gelu")
              : vocabulary_scores(net, bert, x, "generator_predictions.dense", "generator_predictions.LayerNorm",
                                  "generator_lm_head", "generator_lm_head.bias", "gelu");
      return net.output(scores, "logits", tokens_by(bert.vocabulary()));
    }
  }
}

constexpr std::string_view kBert = R"({"model_type": "bert", "vocab_size": 30522, "hidden_size": 768,
  "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "hidden_act": "gelu",
  "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "initializer_range": 0.02,
  "num_labels": 2})";
constexpr std::string_view kRoberta = R"({"model_type": "roberta", "vocab_size": 50265, "hidden_size": 768,
  "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "hidden_act": "gelu",
  "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "initializer_range": 0.02,
  "pad_token_id": 1, "num_labels": 2})";
constexpr std::string_view kElectra = R"({"model_type": "electra", "vocab_size": 30522, "embedding_size": 128,
  "hidden_size": 256, "num_hidden_layers": 12, "num_attention_heads": 4, "intermediate_size": 1024, "hidden_act": "gelu",
  "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "initializer_range": 0.02,
  "num_labels": 2})";

const std::vector<Head> kBertHeads = {Head::sequence_classification, Head::none, Head::token_classification,
                                      Head::question_answering, Head::masked_lm};

const RegisterArchitecture bert_rows[] = {
    RegisterArchitecture{{"bert",
                          {},
                          "bert.",
                          {"classifier.", "qa_outputs.", "cls."},
                          kBertHeads,
                          kBert,
                          [](Net& n, const ModelConfig& c, Head h) { build(n, c, h, Kind::bert, "bert."); }}},
    RegisterArchitecture{{"roberta",
                          {"xlm-roberta", "camembert"},
                          "roberta.",
                          {"classifier.", "qa_outputs.", "lm_head."},
                          kBertHeads,
                          kRoberta,
                          [](Net& n, const ModelConfig& c, Head h) { build(n, c, h, Kind::roberta, "roberta."); }}},
    RegisterArchitecture{{"electra",
                          {},
                          "electra.",
                          {"classifier.", "qa_outputs.", "generator_"},
                          kBertHeads,
                          kElectra,
                          [](Net& n, const ModelConfig& c, Head h) { build(n, c, h, Kind::electra, "electra."); }}}};

}  // namespace
}  // namespace amp
