// DeBERTa-v2 and v3 (He et al. 2020, arXiv 2006.03654) as in Hugging Face transformers. Disentangled attention adds
// content-to-position and position-to-content scores. Distant relative positions share logarithmic buckets.
#include <algorithm>
#include <cmath>

#include "models/architecture.h"
#include "models/transformer.h"

namespace amp {
namespace {

class Deberta {
 public:
  Deberta(Net& net, const ModelConfig& c, const std::string& base)
      : net_(net),
        base_(base),
        width_(c.positive("hidden_size")),
        heads_(c.positive("num_attention_heads")),
        layers_(c.layers("num_hidden_layers")),
        inner_(c.positive("intermediate_size")),
        longest_(c.positive("max_position_embeddings", 512)),
        types_(static_cast<int64_t>(c.number("type_vocab_size", 0))),
        vocabulary_(c.positive("vocab_size")),
        buckets_(static_cast<int64_t>(c.number("position_buckets", -1))),
        reach_(static_cast<int64_t>(c.number("max_relative_positions", -1))),
        epsilon_(c.number("layer_norm_eps", 1e-7)),
        act_(c.text("hidden_act", "gelu")),
        init_(Init::normal(c.number("initializer_range", 0.02))),
        absolute_(c.flag("position_biased_input", true)),
        shared_keys_(c.flag("share_att_key", false)),
        norms_positions_(c.text("norm_rel_ebd", "none").find("layer_norm") != std::string::npos) {
    if (width_ % heads_ != 0) c.refuse("num_attention_heads", "it does not divide hidden_size");
    if (c.number("conv_kernel_size", 0) > 0) c.refuse("conv_kernel_size", "convolution in the encoder is not built");
    if (c.positive("embedding_size", width_) != width_) c.refuse("embedding_size", "only hidden_size is built");
    if (reach_ < 1) reach_ = longest_;
    span_ = buckets_ > 0 ? buckets_ : reach_;
    if (c.flag("relative_attention", false)) read_kinds(c);
  }

  NetValue hidden() {
    const NetValue ids = net_.input("input_ids", DType::i64, kTokens);
    const NetValue mask = net_.input("attention_mask", DType::i64, kTokens);
    NetValue x = embeddings(ids, mask, types_ > 0 ? net_.input("token_type_ids", DType::i64, kTokens) : -1);
    const std::string m = base_ + "encoder";
    const NetValue bias = padding_bias(net_, mask, m);
    if (to_positions_ || from_positions_) relate(ids, m);
    for (int64_t i = 0; i < layers_; ++i) x = layer(x, bias, cat(m, ".layer.", i));
    return x;
  }
  NetValue linear(NetValue x, const std::string& module, int64_t in, int64_t out) {
    return net_.linear(x, module, in, out, init_, Init::constant(0));
  }
  NetValue scores(NetValue x) {
    const std::string m = "cls.predictions";
    x = net_.activation(linear(x, m + ".transform.dense", width_, width_), act_, m + ".transform");
    x = norm(x, m + ".transform.LayerNorm");
    const NetValue table = net_.weight(base_ + "embeddings.word_embeddings.weight", {vocabulary_, width_}, init_);
    return net_.add(tied_scores(net_, x, table, m), net_.weight(m + ".bias", {vocabulary_}, Init::constant(0)), m);
  }
  int64_t width() const { return width_; }
  int64_t vocabulary() const { return vocabulary_; }

 private:
  void read_kinds(const ModelConfig& c) {
    const std::vector<std::string> kinds = c.texts("pos_att_type", '|');
    to_positions_ = std::find(kinds.begin(), kinds.end(), "c2p") != kinds.end();
    from_positions_ = std::find(kinds.begin(), kinds.end(), "p2c") != kinds.end();
  }
  NetValue norm(NetValue x, const std::string& m) { return net_.layer_norm(x, m, width_, epsilon_); }

  NetValue embeddings(NetValue ids, NetValue mask, NetValue types) {
    const std::string m = base_ + "embeddings";
    NetValue x = net_.embedding(ids, m + ".word_embeddings", vocabulary_, width_, init_);
    if (absolute_)
      x = net_.add(x, net_.embedding(positions(net_, ids, m), m + ".position_embeddings", longest_, width_, init_), m);
    if (types >= 0) x = net_.add(x, net_.embedding(types, m + ".token_type_embeddings", types_, width_, init_), m);
    x = norm(x, m + ".LayerNorm");
    const NetValue seen = net_.cast(net_.unsqueeze(mask, m, {2}, DType::i64), m, DType::f32);
    return net_.op("Mul", m, {x, seen});
  }

  // Sets table_, the table of relative positions, and key_rows_ and query_rows_: the row of the table for each pair of
  // positions, shape (S, S).
  void relate(NetValue ids, const std::string& m) {
    table_ = net_.weight(m + ".rel_embeddings.weight", {2 * span_, width_}, init_);
    if (norms_positions_) table_ = norm(table_, m + ".LayerNorm");
    const NetValue places = positions(net_, ids, m);
    const NetValue apart =
        bucketed(net_.op("Sub", m, {net_.transpose(places, m, {1, 0}), places}, {}, DType::i64), m);  // query - key
    const auto row = [&](NetValue from) {
      const NetValue shifted = net_.add(from, net_.integer(m, span_), m, DType::i64);
      return net_.op("Clip", m, {shifted, net_.integer(m, 0), net_.integer(m, 2 * span_ - 1)}, {}, DType::i64);
    };
    key_rows_ = row(apart);
    query_rows_ = row(net_.op("Neg", m, {apart}, {}, DType::i64));
  }
  // Returns the buckets of relative positions. Distances of up to half the number of buckets have a bucket each. Larger
  // distances share buckets by their logarithm.
  NetValue bucketed(NetValue apart, const std::string& m) {
    if (buckets_ <= 0) return apart;
    const int64_t middle = buckets_ / 2;
    const auto float_op = [&](const char* op, NetValue a, double b) { return net_.op(op, m, {a, net_.number(m, b)}); };
    const NetValue distance = net_.op("Abs", m, {net_.cast(apart, m, DType::f32)});
    const NetValue near =
        net_.op("Less", m, {distance, net_.number(m, static_cast<double>(middle))}, {}, DType::boolean);
    const NetValue far = float_op("Max", distance, static_cast<double>(middle - 1));
    const double scale = std::log(static_cast<double>(reach_ - 1) / static_cast<double>(middle));
    NetValue steps = net_.op("Log", m, {float_op("Div", far, static_cast<double>(middle))});
    steps = net_.op("Ceil", m, {float_op("Mul", float_op("Div", steps, scale), static_cast<double>(middle - 1))});
    steps = net_.cast(float_op("Add", steps, static_cast<double>(middle)), m, DType::i64);
    const NetValue signed_steps =
        net_.op("Mul", m, {steps, net_.op("Sign", m, {apart}, {}, DType::i64)}, {}, DType::i64);
    const NetValue kept = net_.op(
        "Or", m,
        {near, net_.op("Equal", m, {distance, net_.number(m, static_cast<double>(middle))}, {}, DType::boolean)}, {},
        DType::boolean);
    return net_.op("Where", m, {kept, apart, signed_steps}, {}, DType::i64);
  }

  int64_t head() const { return width_ / heads_; }
  NetValue split(NetValue x, const std::string& m) {  // (B, S, width) becomes (B, heads, S, head)
    return net_.transpose(net_.reshape(x, m, {0, 0, heads_, head()}), m, {0, 2, 1, 3});
  }
  // Rearranges a table (2 * span, heads * head) to (heads, head, 2 * span), where head is the width of a head.
  NetValue turned(NetValue x, const std::string& m) {
    return net_.transpose(net_.reshape(x, m, {0, heads_, head()}), m, {1, 2, 0});
  }
  // Multiplies x (B, heads, S, head) by all rows of the table and selects one product for each pair of positions.
  // Returns (B, heads, S, S).
  NetValue read(NetValue x, NetValue table, NetValue rows, NetValue scores, const std::string& m) {
    const NetValue all = net_.op("MatMul", m, {x, turned(table, m)});
    const NetValue shape = net_.op("Shape", m, {scores}, {}, DType::i64);
    return net_.op("GatherElements", m, {all, net_.op("Expand", m, {rows, shape}, {}, DType::i64)},
                   {{"axis", int64_t{3}}});
  }

  NetValue disentangled(NetValue x, NetValue bias, const std::string& m) {
    const auto project = [&](NetValue v, const char* name) { return linear(v, m + name, width_, width_); };
    const NetValue q = split(project(x, ".query_proj"), m), k = split(project(x, ".key_proj"), m),
                   v = split(project(x, ".value_proj"), m);
    const NetValue products = net_.op("MatMul", m, {q, net_.transpose(k, m, {0, 1, 3, 2})});
    NetValue scores = products;
    if (to_positions_) {
      const NetValue keys = project(table_, shared_keys_ ? ".key_proj" : ".pos_key_proj");
      scores = net_.add(scores, read(q, keys, key_rows_, products, m), m);
    }
    if (from_positions_) {
      const NetValue queries = project(table_, shared_keys_ ? ".query_proj" : ".pos_query_proj");
      scores = net_.add(scores, net_.transpose(read(k, queries, query_rows_, products, m), m, {0, 1, 3, 2}), m);
    }
    const double kinds = 1.0 + to_positions_ + from_positions_;
    scores = net_.op("Div", m, {scores, net_.number(m, std::sqrt(static_cast<double>(head()) * kinds))});
    const NetValue weights = net_.op("Softmax", m, {net_.add(scores, bias, m)}, {{"axis", int64_t{-1}}});
    const NetValue context = net_.transpose(net_.op("MatMul", m, {weights, v}), m, {0, 2, 1, 3});
    return net_.reshape(context, m, {0, 0, width_});
  }

  NetValue layer(NetValue x, NetValue bias, const std::string& m) {
    const std::string out = m + ".attention.output";
    const NetValue context = disentangled(x, bias, m + ".attention.self");
    x = norm(net_.add(linear(context, out + ".dense", width_, width_), x, out), out + ".LayerNorm");
    NetValue wide = linear(x, m + ".intermediate.dense", width_, inner_);
    wide = net_.activation(wide, act_, m + ".intermediate.intermediate_act_fn");
    return norm(net_.add(linear(wide, m + ".output.dense", inner_, width_), x, m + ".output"), m + ".output.LayerNorm");
  }

  Net& net_;
  std::string base_;  // "deberta."; "" for the base model without a head
  int64_t width_, heads_, layers_, inner_, longest_, types_, vocabulary_, buckets_, reach_, span_ = 0;
  double epsilon_;
  std::string act_;
  Init init_;
  bool absolute_, shared_keys_, norms_positions_, to_positions_ = false, from_positions_ = false;
  NetValue table_ = -1, key_rows_ = -1, query_rows_ = -1;
};

void build_deberta(Net& net, const ModelConfig& c, Head head) {
  Deberta m(net, c, head == Head::none ? "" : "deberta.");
  const NetValue x = m.hidden();
  const int64_t labels = c.labels();
  switch (head) {
    case Head::none:
      return net.output(x, "last_hidden_state", tokens_by(m.width()));
    case Head::sequence_classification: {
      const NetValue dense = m.linear(net.gather(x, "pooler", 0, 1), "pooler.dense", m.width(), m.width());
      const NetValue pooled = net.activation(dense, c.text("pooler_hidden_act", "gelu"), "pooler");
      return net.output(m.linear(pooled, "classifier", m.width(), labels), "logits", rows_by(labels));
    }
    case Head::token_classification:
      return net.output(m.linear(x, "classifier", m.width(), labels), "logits", tokens_by(labels));
    case Head::question_answering:
      return output_spans(net, m.linear(x, "qa_outputs", m.width(), 2));
    default:
      if (!c.flag("legacy", true)) c.refuse("legacy", "only the head called cls.predictions is built");
      return net.output(m.scores(x), "logits", tokens_by(m.vocabulary()));
  }
}

const RegisterArchitecture deberta_row{
    {"deberta-v2",
     {},
     "deberta.",
     {"classifier.", "pooler.", "qa_outputs.", "cls."},
     {Head::sequence_classification, Head::none, Head::token_classification, Head::question_answering, Head::masked_lm},
     R"({"model_type": "deberta-v2", "vocab_size": 128100, "hidden_size": 768,
  "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "hidden_act": "gelu",
  "max_position_embeddings": 512, "type_vocab_size": 0, "relative_attention": true, "max_relative_positions": -1,
  "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": true, "pos_att_type": "p2c|c2p",
  "position_biased_input": false, "pooler_hidden_act": "gelu", "layer_norm_eps": 1e-7, "initializer_range": 0.02,
  "num_labels": 2})",
     build_deberta}};

}  // namespace
}  // namespace amp
