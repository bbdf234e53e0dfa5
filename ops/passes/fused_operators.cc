// Fuses subgraphs into core operators (fused_operators.h): norms, GELU, linear layers, scaled products and attention.
// Each matcher starts at the last node of a pattern and goes backwards (matcher.h).

#include "ops/passes/fused_operators.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "graph/copier.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "ops/passes/attention_match.h"
#include "ops/passes/matcher.h"

namespace amp {

namespace {

class NormMatcher : public Matcher {
 public:
  using Matcher::Matcher;

  // Matches the mean over the last axis, of size n and kept as 1: Mul(ReduceSum(x), 1/n). Returns x.
  ValueId mean_of(ValueId v) {
    const Node* mul = take(v, "Mul");
    if (!mul) return {};
    for (int i = 0; i < 2; ++i) {
      const Node* sum = producer(mul->in[static_cast<size_t>(i)], "ReduceSum");
      if (!sum) continue;
      const Dims& d = dims(sum->in[0]);
      const auto axes = sum->attrs.ints("axes");
      if (d.empty() || axes.size() != 1 || axes[0] != static_cast<int64_t>(d.size()) - 1 ||
          sum->attrs.i("keepdims", 1) == 0)
        return {};
      if (!near(mul->in[static_cast<size_t>(1 - i)], 1.0 / static_cast<double>(d.back()))) return {};
      take(mul->in[static_cast<size_t>(i)], "ReduceSum");
      return sum->in[0];
    }
    return {};
  }
  ValueId square_of(ValueId v) {
    const Node* n = take(v, "Mul");
    return n && n->in[0] == n->in[1] ? n->in[0] : ValueId{};
  }
  // Matches d = x - mean(x) and returns x.
  ValueId centered(ValueId v) {
    const Node* sub = take(v, "Sub");
    return sub && mean_of(sub->in[1]) == sub->in[0] ? sub->in[0] : ValueId{};
  }
  // Matches sqrt(mean(y y) + eps) and returns y and eps.
  ValueId root_mean_square(ValueId v, double& eps) {
    const Node* root = take(v, "Sqrt");
    const Node* add = root ? take(root->in[0], "Add") : nullptr;
    if (!add) return {};
    for (int i = 0; i < 2; ++i) {
      const auto e = scalar(add->in[static_cast<size_t>(1 - i)]);
      if (!e || *e < 0 || *e > 0.1) continue;
      eps = *e;
      const ValueId sq = mean_of(add->in[static_cast<size_t>(i)]);
      return sq ? square_of(sq) : ValueId{};
    }
    return {};
  }
  // Matches the forms of y / rms(z): Div(y, rms), Mul(y, Reciprocal(rms)), Mul(y, Div(1, rms)). Returns y and z.
  std::pair<ValueId, ValueId> normalized(ValueId v, double& eps) {
    if (const Node* div = producer(v, "Div")) {
      take(v, "Div");
      const ValueId z = root_mean_square(div->in[1], eps);
      return {z ? div->in[0] : ValueId{}, z};
    }
    const Node* mul = take(v, "Mul");
    if (!mul) return {};
    for (size_t i = 0; i < 2; ++i) {
      ValueId rms;
      if (const Node* r = producer(mul->in[i], "Reciprocal")) {
        take(mul->in[i], "Reciprocal");
        rms = r->in[0];
      } else if (const Node* d = producer(mul->in[i], "Div"); d && near(d->in[0], 1)) {
        take(mul->in[i], "Div");
        rms = d->in[1];
      }
      if (!rms) continue;
      const ValueId z = root_mean_square(rms, eps);
      return {z ? mul->in[1 - i] : ValueId{}, z};
    }
    return {};
  }
};

struct Norm {
  ValueId x, scale, bias;
  double eps = 0;
  bool rms = false;
};

// Matches Add(Mul(normalized(d), W), b), where d = x - mean(x).
std::optional<Norm> match_layer_norm(NormMatcher& m, NodeId root, const Node& add) {
  for (size_t i = 0; i < 2; ++i) {
    const ValueId product = add.in[i], bias = add.in[1 - i];
    const Node* mul = m.producer(product, "Mul");
    for (size_t k = 0; mul && k < 2; ++k) {
      m.start(root);
      m.take(product, "Mul");
      Norm n;
      n.scale = mul->in[k];
      n.bias = bias;
      const auto [d, z] = m.normalized(mul->in[1 - k], n.eps);
      if (!d || d != z) continue;
      n.x = m.centered(d);
      if (n.x && m.vector_of(n.scale, n.x) && m.vector_of(bias, n.x) && m.one_type()) return n;
    }
  }
  return std::nullopt;
}

// Matches TensorFlow's form: Add(Mul(x, r), Sub(b, Mul(mean, r))), where r = Mul(Reciprocal(rms(x - mean)), W).
std::optional<Norm> match_tf_norm(NormMatcher& m, NodeId root, const Node& add) {
  for (size_t i = 0; i < 2; ++i) {
    m.start(root);
    const Node* scaled = m.take(add.in[i], "Mul");
    const Node* shift = m.take(add.in[1 - i], "Sub");
    const Node* mr = shift ? m.take(shift->in[1], "Mul") : nullptr;
    if (!scaled || !mr) continue;
    for (size_t k = 0; k < 2; ++k) {
      const ValueId x = scaled->in[k], r = scaled->in[1 - k];
      if (mr->in[0] != r && mr->in[1] != r) continue;
      const ValueId mean = mr->in[0] == r ? mr->in[1] : mr->in[0];
      if (m.mean_of(mean) != x) continue;
      const Node* rw = m.take(r, "Mul");
      for (size_t j = 0; rw && j < 2; ++j) {
        const Node* inverse = m.take(rw->in[j], "Reciprocal");
        if (!inverse) continue;
        Norm n;
        n.x = x;
        n.scale = rw->in[1 - j];
        n.bias = shift->in[0];
        const ValueId d = m.root_mean_square(inverse->in[0], n.eps);
        if (d && m.centered(d) == x && m.vector_of(n.scale, x) && m.vector_of(n.bias, x) && m.one_type()) return n;
      }
    }
  }
  return std::nullopt;
}

// Matches Mul(W, normalized(x)), where x is divided by its own root mean square.
std::optional<Norm> match_rms_norm(NormMatcher& m, NodeId root, const Node& mul) {
  for (size_t i = 0; i < 2; ++i) {
    m.start(root);
    Norm n;
    n.rms = true;
    n.scale = mul.in[i];
    const auto [x, z] = m.normalized(mul.in[1 - i], n.eps);
    if (!x || x != z || m.producer(x, "Sub")) continue;
    n.x = x;
    if (m.vector_of(n.scale, x) && m.one_type()) return n;
  }
  return std::nullopt;
}

// Appends the factors of the product v to `out`. Follows Muls whose result has no other readers, up to `depth` levels.
void factors(NormMatcher& m, ValueId v, std::vector<ValueId>& out, int depth) {
  const Node* mul = depth > 0 && m.uses(v) == 1 ? m.producer(v, "Mul") : nullptr;
  if (!mul) {
    out.push_back(v);
    return;
  }
  m.take(v, "Mul");
  factors(m, mul->in[0], out, depth - 1);
  factors(m, mul->in[1], out, depth - 1);
}

// Matches 1 + erf(x / sqrt 2), or 1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)).
const char* gelu_gate(NormMatcher& m, ValueId gate, ValueId x) {
  const Node* add = m.take(gate, "Add");
  const ValueId inner = add ? m.with_constant(*add, 1) : ValueId{};
  if (!inner) return nullptr;
  if (const Node* erf = m.take(inner, "Erf")) {
    if (const Node* div = m.take(erf->in[0], "Div"))
      return div->in[0] == x && m.near(div->in[1], std::sqrt(2.0)) ? "Gelu" : nullptr;
    const Node* mul = m.take(erf->in[0], "Mul");
    return mul && m.with_constant(*mul, std::sqrt(0.5)) == x ? "Gelu" : nullptr;
  }
  const Node* tanh = m.take(inner, "Tanh");
  const Node* scaled = tanh ? m.take(tanh->in[0], "Mul") : nullptr;
  const ValueId sum = scaled ? m.with_constant(*scaled, 0.79788456) : ValueId{};
  const Node* cubic = sum ? m.take(sum, "Add") : nullptr;
  if (!cubic || (cubic->in[0] != x && cubic->in[1] != x)) return nullptr;
  std::vector<ValueId> f;
  factors(m, cubic->in[0] == x ? cubic->in[1] : cubic->in[0], f, 4);
  if (f.size() == 3) {  // x^2 may be one value that several products read
    std::vector<ValueId> more;
    for (const ValueId v : f) {
      const Node* sq = m.producer(v, "Mul");
      if (sq && v != x && sq->in[0] == x && sq->in[1] == x) {
        m.take(v, "Mul");
        more.insert(more.end(), {x, x});
      } else {
        more.push_back(v);
      }
    }
    f = more;
  }
  return f.size() == 4 && std::count(f.begin(), f.end(), x) == 3 &&
                 std::any_of(f.begin(), f.end(), [&](ValueId v) { return m.near(v, 0.044715); })
             ? "GeluTanh"
             : nullptr;
}

struct Gelu {
  ValueId x;
  const char* op;
};
// Matches x * 0.5 * gate(x), with the factors in any order.
std::optional<Gelu> match_gelu(NormMatcher& m, NodeId root, const Node& mul) {
  m.start(root);
  std::vector<ValueId> f;
  factors(m, mul.in[0], f, 2);
  factors(m, mul.in[1], f, 2);
  if (f.size() != 3) return std::nullopt;
  const auto half = std::find_if(f.begin(), f.end(), [&](ValueId v) { return m.near(v, 0.5); });
  if (half == f.end()) return std::nullopt;
  f.erase(half);
  for (size_t i = 0; i < 2; ++i) {
    const char* op = gelu_gate(m, f[i], f[1 - i]);
    if (op && m.one_type()) return Gelu{f[1 - i], op};
  }
  return std::nullopt;
}

class Former {
 public:
  Former(const Graph& g, const std::vector<DType>& compute, const Evaluator& evaluator)
      : g_(g), m_(g, compute), attention_(g, compute), b_(out_, evaluator), mapped(g, out_, &b_) {}

  Graph run() {
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      const Node& node = g_.node(NodeId{n});
      b_.origin = node.origin;
      const ValueId composite = try_composite(NodeId{n}, node);
      // A scalar constant of higher rank than x raises the rank of the unfused result, but not of the fused operator's
      // result. So the fused operator is used only if the dims are equal.
      if (composite && out_.value(composite).dims == m_.dims(node.out[0])) {
        mapped.set(node.out[0], composite);
        continue;
      }
      mapped.set(node.out, b_.ops(node.op->name, mapped(node.in), node.attrs));
    }
    mapped.finish();
    return prune(out_);
  }

 private:
  ValueId try_composite(NodeId id, const Node& node) {
    if (node.out.size() != 1 || !is_float(g_.value(node.out[0]).dtype)) return {};
    const std::string& op = node.op->name;
    if (op == "Add") {
      auto norm = match_layer_norm(m_, id, node);
      if (!norm) norm = match_tf_norm(m_, id, node);
      if (norm) return emit(*norm);
      return linear(id, node);
    }
    if (op == "Mul") {
      if (const auto gelu = match_gelu(m_, id, node)) return b_.op(gelu->op, {mapped(gelu->x)});
      if (const auto norm = match_rms_norm(m_, id, node)) return emit(*norm);
    }
    if (op == "Mul" || op == "Div") return scaled_product(id, node);
    if (op == "MatMul") {
      if (const auto a = attention_.match(id, node))
        return emit_attention(b_, *a, [&](ValueId v) { return mapped(v); });
    }
    return {};
  }

  ValueId emit(const Norm& norm) {
    const int64_t n = m_.dims(norm.x).back();
    std::vector<ValueId> in{mapped(norm.x), b_.reshape(mapped(norm.scale), {n})};
    if (norm.bias) in.push_back(b_.reshape(mapped(norm.bias), {n}));
    return b_.op("LayerNorm", in, {{"n", n}, {"epsilon", norm.eps}, {"rms", int64_t{norm.rms}}});
  }

  // Fuses MatMul(x, W) + b, where b has one element per column.
  ValueId linear(NodeId id, const Node& add) {
    for (size_t i = 0; i < 2; ++i) {
      m_.start(id);
      const ValueId product = add.in[i], bias = add.in[1 - i];
      const Node* mm = m_.take(product, "MatMul");
      if (!mm || mm->in.size() != 2 || m_.uses(product) != 1 || !m_.vector_of(bias, product) || !m_.one_type())
        continue;
      // Kernels support a bias for a single product, not for a batch of products.
      if (m_.dims(mm->in[1]).size() != 2 || (m_.dims(mm->in[0]).size() != 2 && mm->attrs.i("transA", 0) != 0)) continue;
      return b_.op("MatMul",
                   {mapped(mm->in[0]), mapped(mm->in[1]), b_.reshape(mapped(bias), {m_.dims(product).back()})},
                   mm->attrs);
    }
    return {};
  }

  // Merges the factor of c * MatMul or MatMul / c into MatMul's alpha, if the product has no other readers.
  ValueId scaled_product(NodeId id, const Node& node) {
    for (size_t i = 0; i < (node.op->name == "Mul" ? 2u : 1u); ++i) {
      m_.start(id);
      const auto c = m_.scalar(node.in[1 - i]);
      const Node* mm = c ? m_.take(node.in[i], "MatMul") : nullptr;
      if (!mm || mm->in.size() != 2 || m_.uses(node.in[i]) != 1 || !m_.one_type() ||
          m_.dims(node.in[i]) != m_.dims(node.out[0]))
        continue;
      Attrs a = mm->attrs;
      a.set("alpha", a.f("alpha", 1) * (node.op->name == "Mul" ? *c : 1 / *c));
      return b_.op("MatMul", {mapped(mm->in[0]), mapped(mm->in[1])}, a);
    }
    return {};
  }

  const Graph& g_;
  NormMatcher m_;
  AttentionMatcher attention_;
  Graph out_;
  Builder b_;
  ValueMap mapped;
};

}  // namespace

Graph fuse_operators(const Graph& g, const std::vector<DType>& compute, const Evaluator& evaluator) {
  return Former(g, compute, evaluator).run();
}

}  // namespace amp
