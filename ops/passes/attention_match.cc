// Matches unfused attention (attention_match.h), beginning with the last operator: the product with v, then dropout,
// softmax, masks, scale, and the product of q and k. emit_attention() writes the FusedAttention node.

#include "ops/passes/attention_match.h"

#include <limits>

namespace amp {

AttentionMatcher::AttentionMatcher(const Graph& g, const std::vector<DType>& compute)
    : Matcher(g, compute), from_param_(static_cast<size_t>(g.n_values()), false) {
  const auto at = [&](ValueId v) { return static_cast<size_t>(v.index); };
  for (int32_t i = 0; i < g.n_values(); ++i)
    from_param_[static_cast<size_t>(i)] = g.value(ValueId{i}).kind == ValueKind::param;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    const bool any = std::any_of(node.in.begin(), node.in.end(), [&](ValueId v) { return v && from_param_[at(v)]; });
    for (const ValueId v : node.out) from_param_[at(v)] = any;
  }
}

// Skips all Mul(x, c), Mul(c, x) and Div(x, c) with a constant c and multiplies the constants into scale. Returns the
// remaining x.
ValueId AttentionMatcher::unscaled(ValueId v, double& scale) {
  for (;;) {
    const Node* mul = producer(v, "Mul");
    const Node* div = mul ? nullptr : producer(v, "Div");
    const Node* n = mul ? mul : div;
    if (!n) return v;
    const auto right = scalar(n->in[1]), left = mul ? scalar(n->in[0]) : std::nullopt;
    const auto c = right ? right : left;
    const ValueId x = right ? n->in[0] : n->in[1];
    if (!c || (div && *c == 0) || dims(x) != dims(v)) return v;
    scale *= div ? 1 / *c : *c;
    take(v, n->op->name.c_str());
    v = x;
  }
}

// Sets k from the right operand b of the product, which is (.., H, Sk), or (.., Sk, H) if `transposed`.
void AttentionMatcher::find_keys(ValueId b, bool transposed, AttentionMatch& m) {
  m.k = unscaled(b, m.scale);
  m.k_transposed = !transposed;
  if (transposed) return;
  // k may have been transposed as Reshape(Transpose(Reshape(k, (B N, Sk, H)), (0, 2, 1))).
  const Node* outer = producer(m.k, "Reshape");
  const Node* swap = outer ? producer(outer->in[0], "Transpose") : nullptr;
  const Node* inner = swap ? producer(swap->in[0], "Reshape") : nullptr;
  if (!inner || swap->attrs.ints("perm") != std::vector<int64_t>{0, 2, 1}) return;
  const Dims k = dims(inner->in[0]), kt = dims(m.k);
  const size_t r = kt.size();
  Dims swapped = kt;
  std::swap(swapped[r - 1], swapped[r - 2]);
  if (k != swapped) return;
  m.k = unscaled(inner->in[0], m.scale);
  m.k_transposed = false;
}

bool AttentionMatcher::scores(ValueId z, AttentionMatch& m) {
  for (int depth = 0; depth < 8; ++depth) {
    if (uses(z) != 1) return false;
    if (const Node* mm = producer(z, "MatMul")) {
      if (mm->in.size() != 2 || mm->attrs.i("transA", 0) != 0) return false;
      take(z, "MatMul");
      m.scale *= mm->attrs.f("alpha", 1);
      m.q = unscaled(mm->in[0], m.scale);
      find_keys(mm->in[1], mm->attrs.i("transB", 0) != 0, m);
      return true;
    }
    const auto is_mask = [&](ValueId v) {
      return !from_param_[static_cast<size_t>(v.index)] && is_float(g_.value(v).dtype);
    };
    if (const Node* add = producer(z, "Add")) {
      if (m.keep) return false;  // a Where mask cannot be combined with added masks
      const size_t i = is_mask(add->in[1]) ? 1 : 0;
      if (!is_mask(add->in[i]) || dims(add->in[1 - i]) != dims(z)) return false;
      take(z, "Add");
      m.added.push_back(add->in[i]);
      z = add->in[1 - i];
      continue;
    }
    if (const Node* where = producer(z, "Where")) {
      if (m.keep || !m.added.empty()) return false;
      const auto if_true = scalar(where->in[1]), if_false = scalar(where->in[2]);
      if (!if_true == !if_false || from_param_[static_cast<size_t>(where->in[0].index)]) return false;
      m.keep = where->in[0];
      m.keep_means_hide = if_true.has_value();
      m.fill = if_true ? *if_true : *if_false;
      take(z, "Where");
      const ValueId x = if_true ? where->in[2] : where->in[1];
      if (dims(x) != dims(z)) return false;
      z = x;
      continue;
    }
    const ValueId x = unscaled(z, m.scale);  // the scale must apply to the product only, not also to a mask
    if (x == z || !producer(x, "MatMul")) return false;
    z = x;
  }
  return false;
}

bool AttentionMatcher::probabilities(ValueId p, AttentionMatch& m) {
  if (uses(p) != 1) return false;
  if (const Node* drop = take(p, "Dropout")) {
    m.dropout = drop->attrs;
    p = drop->in[0];
    if (uses(p) != 1) return false;
  }
  if (const Node* where = producer(p, "Where")) {  // matches Where(IsNaN(p), 0, p)
    const Node* nan = producer(where->in[0], "IsNaN");
    const auto zero = scalar(where->in[1]);
    if (!nan || !zero || *zero != 0 || nan->in[0] != where->in[2] || uses(where->in[2]) != 2 || uses(where->in[0]) != 1)
      return false;
    take(where->in[0], "IsNaN");
    take(p, "Where");
    m.empty_rows_zero = true;
    p = where->in[2];
  }
  const auto softmax_of = [&](ValueId v) {
    const Node* softmax = take(v, "Softmax");
    if (softmax && softmax->attrs.i("empty_rows_zero", 0) != 0) m.empty_rows_zero = true;
    return softmax;
  };
  if (const Node* softmax = softmax_of(p)) return scores(softmax->in[0], m);
  // Before opset 13, Reshapes around Softmax flatten the rows.
  const Node* back = producer(p, "Reshape");
  const Node* softmax = back && uses(back->in[0]) == 1 ? softmax_of(back->in[0]) : nullptr;
  const Node* flat = softmax && uses(softmax->in[0]) == 1 ? producer(softmax->in[0], "Reshape") : nullptr;
  return flat && dims(flat->in[0]) == dims(p) && dims(softmax->in[0]).back() == dims(p).back() &&
         scores(flat->in[0], m);
}

bool AttentionMatcher::fits(const AttentionMatch& m, const Dims& s) const {
  const Dims &q = dims(m.q), &k = dims(m.k), &v = dims(m.v);
  const size_t r = s.size();
  if ((r != 3 && r != 4) || q.size() != r || k.size() != r || v.size() != r) return false;
  for (size_t d = 0; d + 2 < r; ++d) {
    if (q[d] != s[d] || k[d] != s[d] || v[d] != s[d]) return false;
  }
  const auto mask_fits = [&](ValueId mask) {
    const Dims& d = dims(mask);
    if (d.size() > r) return false;
    for (size_t i = 0; i < d.size(); ++i) {
      if (d[i] != 1 && d[i] != s[r - d.size() + i]) return false;
    }
    return true;
  };
  return std::all_of(m.added.begin(), m.added.end(), mask_fits) && (!m.keep || mask_fits(m.keep));
}

bool AttentionMatcher::types_agree(NodeId root) const {
  const DType t = type(root);
  return std::all_of(swallowed().begin(), swallowed().end(), [&](NodeId n) {
    const DType own = type(n);
    return g_.node(n).op->name == "MatMul" ? own == t : own == t || own == DType::f32;
  });
}

std::optional<AttentionMatch> AttentionMatcher::match(NodeId root, const Node& node) {
  if (node.in.size() != 2 || node.attrs.i("transA", 0) != 0 || node.attrs.i("transB", 0) != 0 ||
      node.attrs.f("alpha", 1) != 1)
    return std::nullopt;
  const Dims& p = dims(node.in[0]);
  if (p.size() != 3 && p.size() != 4) return std::nullopt;
  start(root);
  AttentionMatch m;
  m.v = node.in[1];
  if (!probabilities(node.in[0], m) || !fits(m, p) || !types_agree(root)) return std::nullopt;
  return m;
}

namespace {

// If v is the transpose of a (B, S, N, H) value to heads before positions, returns that value; otherwise an invalid id.
ValueId before_heads(const Builder& b, ValueId v) {
  const Value& x = b.value(v);
  if (x.kind != ValueKind::temp) return {};
  const Node& n = b.graph().node(x.producer);
  return n.op->name == "Transpose" && n.attrs.ints("perm") == std::vector<int64_t>{0, 2, 1, 3} ? n.in[0] : ValueId{};
}

}  // namespace

ValueId emit_attention(Builder& b, const AttentionMatch& m, const std::function<ValueId(ValueId)>& at) {
  ValueId k = at(m.k);
  if (m.k_transposed)
    k = b.transpose(k, b.rank(k) == 3 ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{0, 1, 3, 2});
  std::vector<ValueId> in{at(m.q), k, at(m.v)};
  const Dims dq = b.dims(in[0]);
  const bool one_batch = dq.size() == 3;  // (B * N, S, H) becomes B * N batch entries with one head
  const auto with_heads = [&](Dims d) {
    if (one_batch && d.size() == 3) d.insert(d.begin() + 1, 1);
    while (d.size() < 4) d.insert(d.begin(), 1);
    return d;
  };
  bool heads_first = one_batch;
  for (ValueId& v : in) {
    v = b.reshape(v, with_heads(b.dims(v)));
    heads_first = heads_first || !before_heads(b, v);
  }
  if (!heads_first) {
    for (ValueId& v : in) v = before_heads(b, v);
  }
  ValueId mask;
  for (const ValueId v : m.added) {
    const ValueId one = b.reshape(at(v), with_heads(b.dims(at(v))));
    mask = mask ? b.op("Add", {one, mask}) : one;
  }
  if (m.keep) {
    mask = b.reshape(at(m.keep), with_heads(b.dims(at(m.keep))));
    if (m.keep_means_hide) mask = b.op("Not", {mask});
  }
  if (mask) in.push_back(mask);
  Attrs a{{"scale", m.scale},
          {"heads_first", int64_t{heads_first}},
          {"fill", m.keep ? m.fill : -std::numeric_limits<double>::infinity()},
          {"empty_rows_zero", int64_t{m.empty_rows_zero}}};
  for (const auto& [name, value] : m.dropout.items()) a.set(name, value);
  ValueId y = b.op("FusedAttention", std::move(in), std::move(a));
  if (!heads_first) y = b.transpose(y, {0, 2, 1, 3});
  Dims out = dq;
  out.back() = b.dims(at(m.v)).back();
  return b.reshape(y, out);
}

}  // namespace amp
