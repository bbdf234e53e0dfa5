// Attention (ONNX 23 to 25) and the helpers of all attention operators (ops/composed/attention.h). Attention is lowered
// to products, masks and Softmax, from which ops/passes/attention_match.h forms FusedAttention.
#include "ops/composed/attention.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "graph/bind.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"

namespace amp {

ValueId split_heads(Builder& b, ValueId x, int64_t heads) {
  const Dims d = b.dims(x);
  if (heads <= 0 || d.at(2) % heads != 0)
    fail(Exit::model, "E_ATTR", cat("attention over ", to_string(d), " with ", heads, " heads"));
  return b.transpose(b.reshape(x, {d[0], d[1], heads, d[2] / heads}), {0, 2, 1, 3});
}
ValueId merge_heads(Builder& b, ValueId x) {
  const Dims d = b.dims(x);
  return b.reshape(b.transpose(x, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]});
}
ValueId repeat_heads(Builder& b, ValueId x, int64_t times) {
  const Dims d = b.dims(x);
  if (times == 1) return x;
  return b.reshape(b.expand(b.reshape(x, {d[0], d[1], 1, d[2], d[3]}), {d[0], d[1], times, d[2], d[3]}),
                   {d[0], d[1] * times, d[2], d[3]});
}

namespace {

// How many keys before and after its own position a query may see; negative: all.
struct Reach {
  int64_t before, after;
  bool limited() const { return before >= 0 || after >= 0; }
};

// (queries, keys): query i is at position past + i.
ValueId reach_mask(Builder& b, const Reach& r, int64_t queries, int64_t keys, int64_t past, double masked, DType t) {
  std::vector<double> m(static_cast<size_t>(queries * keys), 0);
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t ahead = j - (past + i);
      if ((r.after >= 0 && ahead > r.after) || (r.before >= 0 && -ahead > r.before))
        m[static_cast<size_t>(i * keys + j)] = masked;
    }
  }
  return b.constant(HostTensor::of<double>({queries, keys}, m).cast(t));
}

}  // namespace

ValueId causal_mask(Builder& b, int64_t queries, int64_t keys, int64_t past, double masked, DType t, int64_t window) {
  return reach_mask(b, {window > 0 ? window - 1 : -1, 0}, queries, keys, past, masked, t);
}
ValueId additive(Builder& b, ValueId keep, double masked, DType t) {
  return b.op("Where", {keep, b.scalar(0, t), b.scalar(masked, t)});
}
ValueId length_mask(Builder& b, ValueId lens, int64_t keys, double masked, DType t) {
  std::vector<int64_t> at(static_cast<size_t>(keys));
  for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<int64_t>(i);
  const ValueId last = b.reshape(b.cast(lens, DType::i64), {numel(b.dims(lens)), 1, 1, 1});
  return additive(b, b.op("Less", {b.constant(HostTensor::of<int64_t>({keys}, at)), last}), masked, t);
}

Attended attend(const Lowering& l, ValueId q, ValueId k, ValueId v, double scale, double softcap,
                const std::vector<ValueId>& masks, ValueId sink, bool empty_rows_zero) {
  Builder& b = l.b;
  Attended c;
  c.scores = b.op("MatMul", {q, k}, {{"transA", int64_t{0}}, {"transB", int64_t{1}}, {"alpha", scale}});
  c.capped = softcap > 0 ? scaled(b, b.op("Tanh", {scaled(b, c.scores, 1 / softcap)}), softcap) : c.scores;
  c.masked = c.capped;
  for (const ValueId m : masks) c.masked = add(b, c.masked, m);
  if (sink) {
    Dims d = b.dims(c.masked);
    const int64_t keys = d[3];
    d[3] = 1;
    const ValueId extra = b.expand(b.reshape(sink, {1, d[1], 1, 1}), d);
    c.weights = slice(b, b.op("Softmax", {concat(b, {c.masked, extra}, 3)}), 3, 0, keys);
  } else {
    c.weights = b.op("Softmax", {c.masked}, empty_rows_zero ? Attrs{{"empty_rows_zero", int64_t{1}}} : Attrs{});
  }
  ValueId p = c.weights;
  const double ratio = l.options.train ? l.attrs.f("training_dropout", 0) : 0;
  if (ratio > 0) p = b.op("Dropout", {p}, {{"ratio", ratio}, {"site", l.attrs.i("site", 0)}});
  c.y = b.op("MatMul", {p, v});
  return c;
}

namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

Reach reach_of(const Lowering& l) {
  Reach r{l.attrs.i("left_window_size", -1), l.attrs.i("right_window_size", -1)};
  if (r.before < -1 || r.after < -1)
    fail(Exit::model, "E_ATTR", cat("Attention: windows of ", r.before, " and ", r.after, " keys"));
  if (l.attrs.i("is_causal", 0) != 0) r.after = 0;
  return r;
}

// Query i is at position past + i. With lengths of the rows (input 6), the last query is at a row's last key. So query
// i is at position length - queries + i, and the masks (B, 1, queries, keys) are computed from the distance of key j.
void add_reach_masks(const Lowering& l, const Reach& r, int64_t queries, int64_t keys, int64_t past, DType t,
                     std::vector<ValueId>& masks) {
  Builder& b = l.b;
  if (r.limited() && !l.has(6)) masks.push_back(reach_mask(b, r, queries, keys, past, kMinusInf, t));
  if (!r.limited() || !l.has(6)) return;
  const ValueId rows = b.reshape(b.cast(l.in(6), DType::i64), {numel(l.dims(6)), 1, 1, 1});
  const auto distance = [&](int64_t more) {
    std::vector<int64_t> d(static_cast<size_t>(queries * keys));
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t j = 0; j < keys; ++j) d[static_cast<size_t>(i * keys + j)] = j - i + queries + more;
    }
    return b.constant(HostTensor::of<int64_t>({queries, keys}, d));
  };
  if (r.after >= 0) masks.push_back(additive(b, b.op("Less", {distance(-r.after - 1), rows}), kMinusInf, t));
  if (r.before >= 0) masks.push_back(additive(b, b.op("Less", {rows, distance(r.before + 1)}), kMinusInf, t));
}

void lower_attention(Lowering& l) {
  Builder& b = l.b;
  const bool flat = l.rank(0) == 3;
  const int64_t q_heads = l.attrs.i("q_num_heads", 0), kv_heads = l.attrs.i("kv_num_heads", 0);
  const ValueId q = flat ? split_heads(b, l.in(0), q_heads) : l.in(0);
  ValueId k = flat ? split_heads(b, l.in(1), kv_heads) : l.in(1),
          v = flat ? split_heads(b, l.in(2), kv_heads) : l.in(2);
  int64_t past = 0;
  if (l.has(4)) {
    past = l.dims(4).at(2);
    k = concat(b, {l.in(4), k}, 2);
    v = concat(b, {l.in(5), v}, 2);
  }
  l.out(1, k);
  l.out(2, v);
  const Dims dq = b.dims(q), dk = b.dims(k);
  const int64_t keys = dk.at(2);
  const DType t = b.dtype(q);
  std::vector<ValueId> masks;
  const Reach reach = reach_of(l);
  add_reach_masks(l, reach, dq.at(2), keys, past, t, masks);
  if (l.has(3)) {
    ValueId m = l.in(3);
    const bool boolean = b.dtype(m) == DType::boolean;
    if (boolean) m = additive(b, m, kMinusInf, t);
    Dims tail = b.dims(m);
    if (tail.back() < keys && (tail.back() != 1 || l.version() >= 24)) {  // a mask for fewer keys hides the other keys
      tail.back() = keys - tail.back();
      m = concat(b, {m, filled(b, kMinusInf, t, tail)}, static_cast<int64_t>(tail.size()) - 1);
    }
    masks.push_back(m);
  }
  if (l.has(6)) {
    masks.push_back(length_mask(b, l.in(6), keys, kMinusInf, t));
  }
  if (dk[1] == 0 || dq[1] % dk[1] != 0)
    fail(Exit::model, "E_SHAPE", cat("attention of ", dq[1], " query heads over ", dk[1]));
  const int64_t times = dq[1] / dk[1];
  const double scale = l.attrs.f("scale", 1 / std::sqrt(static_cast<double>(dq.at(3))));
  // As in PyTorch and onnxruntime, a query without visible keys gives 0. (A causal mask alone leaves at least one key.)
  const Attended c = attend(l, q, repeat_heads(b, k, times), repeat_heads(b, v, times), scale, l.attrs.f("softcap", 0),
                            masks, {}, l.has(3) || l.has(6) || reach.before >= 0);
  l.out(0, flat ? merge_heads(b, c.y) : c.y);
  switch (l.attrs.i("qk_matmul_output_mode", 0)) {
    case 0:
      l.out(3, c.scores);
      break;
    case 1:
      l.out(3, c.capped);
      break;
    case 2:
      l.out(3, c.masked);
      break;
    default:
      l.out(3, c.weights);
      break;
  }
}

const RegisterOnnx attention_onnx{{"Attention", lower_attention, 23, {}}};

}  // namespace
}  // namespace amp
