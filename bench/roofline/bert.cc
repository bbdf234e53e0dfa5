// Builds the SourceGraph of BERT as PyTorch exports it, with unfused attention, GELU and norms. The roofline then
// counts the kernels that remain after this program's fusions.
#include "bench/roofline/bert.h"

#include <cmath>

#include "base/error.h"

namespace amp {

namespace {

class Writer {
 public:
  explicit Writer(const BertConfig& c) : c_(c) {
    g_.name = "bert";
    g_.opsets[""] = kVersion;
  }

  SourceGraph write() {
    const int ids = input("input_ids");
    int x = node("Gather", {param("embeddings.word", {c_.vocabulary, c_.hidden}), ids});
    // Positions are the first rows of the table, one for each token.
    const int length = node("Gather", {node("Shape", {ids}), ints({}, {1})});
    const int places = node("Unsqueeze", {node("Range", {ints({}, {0}), length, ints({}, {1})}), ints({1}, {0})});
    x = node("Add", {x, node("Gather", {param("embeddings.position", {c_.positions, c_.hidden}), places})});
    const int types = node("Sub", {ids, ids});
    x = node("Add", {x, node("Gather", {param("embeddings.type", {2, c_.hidden}), types})});
    x = norm(x, "embeddings.norm");
    const int mask = c_.mask ? hidden_keys() : -1;
    for (int64_t l = 0; l < c_.layers; ++l) x = layer(x, cat("layer.", l, '.'), mask);
    const int first = node("Gather", {x, ints({}, {0})}, {{"axis", int64_t{1}}});
    const int pooled = node("Tanh", {linear(first, "pooler", c_.hidden, c_.hidden)});
    const int logits = linear(pooled, "classifier", c_.hidden, c_.classes, "logits");
    g_.outputs.push_back(logits);
    return std::move(g_);
  }

 private:
  static constexpr int64_t kVersion = 20;

  int value(SourceKind kind, DType type, const std::string& name, HostTensor data = {}) {
    SourceValue v;
    v.name = name;
    v.kind = kind;
    v.dtype = type;
    v.dtype_known = true;
    v.data = std::move(data);
    v.trainable = kind == SourceKind::parameter;
    return g_.add_value(std::move(v));
  }
  int input(const std::string& name) {
    const int v = value(SourceKind::input, DType::i64, name);
    SourceValue& s = g_.values[static_cast<size_t>(v)];
    s.rank_known = true;
    s.dims = {{-1, "batch"}, {-1, "length"}};
    g_.inputs.push_back(v);
    return v;
  }
  int param(const std::string& name, const Dims& dims) {
    return value(SourceKind::parameter, DType::f32, name, HostTensor::zeros(DType::f32, dims));
  }
  int ints(const Dims& dims, const std::vector<int64_t>& v) {
    return value(SourceKind::constant, DType::i64, cat("constant.", g_.values.size()),
                 HostTensor::of<int64_t>(dims, v));
  }
  int scalar(float v) {
    return value(SourceKind::constant, DType::f32, cat("constant.", g_.values.size()), HostTensor::of<float>({}, {v}));
  }
  int node(const std::string& op, std::vector<int> in, Attrs attrs = {}, std::string out = {}) {
    SourceNode n;
    n.name = cat(op, '.', g_.nodes.size());
    n.op = op;
    n.version = kVersion;
    n.attrs = std::move(attrs);
    n.inputs = std::move(in);
    const int v = value(SourceKind::temp, DType::f32, out.empty() ? cat("value.", g_.values.size()) : std::move(out));
    g_.values[static_cast<size_t>(v)].dtype_known = false;
    n.outputs = {v};
    g_.add_node(std::move(n));
    return v;
  }

  int linear(int x, const std::string& name, int64_t from, int64_t to, const std::string& out = {}) {
    const int product = node("MatMul", {x, param(name + ".weight", {from, to})});
    return node("Add", {product, param(name + ".bias", {to})}, {}, out);
  }
  int norm(int x, const std::string& name) {
    return node("LayerNormalization", {x, param(name + ".weight", {c_.hidden}), param(name + ".bias", {c_.hidden})},
                {{"axis", int64_t{-1}}, {"epsilon", 1e-12}});
  }
  // Converts a mask (B, S) to an additive mask (B, 1, 1, S): 0 for 1, the most negative number for 0.
  int hidden_keys() {
    const int mask = node("Cast", {input("attention_mask")}, {{"to", int64_t{1}}});
    const int wide = node("Unsqueeze", {mask, ints({2}, {1, 2})});
    return node("Mul", {node("Sub", {scalar(1), wide}), scalar(-3.4e38f)});
  }
  int heads_of(int x, const std::vector<int64_t>& order) {
    const int apart = node("Reshape", {x, ints({4}, {0, 0, c_.heads, c_.hidden / c_.heads})});
    return node("Transpose", {apart}, {{"perm", order}});
  }
  int layer(int x, const std::string& name, int mask) {
    const int64_t h = c_.hidden;
    const int q = heads_of(linear(x, name + "query", h, h), {0, 2, 1, 3}),
              k = heads_of(linear(x, name + "key", h, h), {0, 2, 3, 1}),
              v = heads_of(linear(x, name + "value", h, h), {0, 2, 1, 3});
    const auto width = static_cast<float>(h / c_.heads);
    int scores = node("Div", {node("MatMul", {q, k}), scalar(std::sqrt(width))});
    if (mask >= 0) scores = node("Add", {scores, mask});
    const int p = node("Softmax", {scores}, {{"axis", int64_t{-1}}});
    const int mixed = node("Transpose", {node("MatMul", {p, v})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    const int joined = node("Reshape", {mixed, ints({3}, {0, 0, h})});
    x = norm(node("Add", {linear(joined, name + "output", h, h), x}), name + "norm1");
    const int wide = node("Gelu", {linear(x, name + "up", h, c_.intermediate)});
    return norm(node("Add", {linear(wide, name + "down", c_.intermediate, h), x}), name + "norm2");
  }

  const BertConfig& c_;
  SourceGraph g_;
};

}  // namespace

SourceGraph bert_graph(const BertConfig& c) { return Writer(c).write(); }

Tensors bert_batch(const BertConfig& c, int64_t batch, int64_t length) {
  Tensors t{{"input_ids", HostTensor::zeros(DType::i64, {batch, length})},
            {"label", HostTensor::zeros(DType::i64, {batch})}};
  if (c.mask)
    t["attention_mask"] =
        HostTensor::of<int64_t>({batch, length}, std::vector<int64_t>(static_cast<size_t>(batch * length), 1));
  return t;
}

}  // namespace amp
