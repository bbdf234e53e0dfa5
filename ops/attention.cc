// Attention (ONNX 23, 24), com.microsoft Attention and MultiHeadAttention: softmax(softcap(alpha Q K^T) + mask) V, composed of core
// operators. Heads are dimension 1 of four: (B, H, S, D).
#include <cmath>
#include <limits>

#include "ops/compose.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

// (B, S, H D) -> (B, H, S, D) and back.
ValueId split_heads(Builder& b, ValueId x, int64_t heads) {
  const Dims d = b.dims(x);
  if (heads <= 0 || d.at(2) % heads != 0) fail(Exit::model, "E_ATTR", cat("attention over ", to_string(d), " with ", heads, " heads"));
  return b.transpose(b.reshape(x, {d[0], d[1], heads, d[2] / heads}), {0, 2, 1, 3});
}
ValueId merge_heads(Builder& b, ValueId x) {
  const Dims d = b.dims(x);
  return b.reshape(b.transpose(x, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]});
}
// Every key/value head serves `times` query heads in a row.
ValueId repeat_heads(Builder& b, ValueId x, int64_t times) {
  const Dims d = b.dims(x);
  if (times == 1) return x;
  return b.reshape(b.expand(b.reshape(x, {d[0], d[1], 1, d[2], d[3]}), {d[0], d[1], times, d[2], d[3]}), {d[0], d[1] * times, d[2], d[3]});
}

ValueId causal_mask(Builder& b, int64_t queries, int64_t keys, int64_t past, double masked, DType t) {
  std::vector<double> m(static_cast<size_t>(queries * keys), 0);
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = past + i + 1; j < keys; ++j) m[static_cast<size_t>(i * keys + j)] = masked;
  }
  return b.constant(HostTensor::of<double>({queries, keys}, m).cast(t));
}
// true: takes part.
ValueId additive(Builder& b, ValueId keep, double masked, DType t) { return b.op("Where", {keep, b.scalar(0, t), b.scalar(masked, t)}); }

struct Core {
  ValueId y, scores, capped, masked, weights;
};
// masks: each added to the scores, broadcast. Training may drop probabilities (attributes training_dropout and site, put there by
// importer/dropout.h).
Core attend(const Lowering& l, ValueId q, ValueId k, ValueId v, double scale, double softcap, const std::vector<ValueId>& masks) {
  Builder& b = l.b;
  Core c;
  c.scores = b.op("MatMul", {q, k}, {{"transA", int64_t{0}}, {"transB", int64_t{1}}, {"alpha", scale}});
  c.capped = softcap > 0 ? scaled(b, b.op("Tanh", {scaled(b, c.scores, 1 / softcap)}), softcap) : c.scores;
  c.masked = c.capped;
  for (const ValueId m : masks) c.masked = add(b, c.masked, m);
  c.weights = b.op("Softmax", {c.masked});
  ValueId p = c.weights;
  const double ratio = l.options.train ? l.attrs.f("training_dropout", 0) : 0;
  if (ratio > 0) p = b.op("Dropout", {p}, {{"ratio", ratio}, {"site", l.attrs.i("site", 0)}});
  c.y = b.op("MatMul", {p, v});
  return c;
}

void lower_attention(Lowering& l) {
  Builder& b = l.b;
  const bool flat = l.rank(0) == 3;
  const int64_t q_heads = l.attrs.i("q_num_heads", 0), kv_heads = l.attrs.i("kv_num_heads", 0);
  const ValueId q = flat ? split_heads(b, l.in(0), q_heads) : l.in(0);
  ValueId k = flat ? split_heads(b, l.in(1), kv_heads) : l.in(1), v = flat ? split_heads(b, l.in(2), kv_heads) : l.in(2);
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
  if (l.attrs.i("is_causal", 0) != 0) masks.push_back(causal_mask(b, dq.at(2), keys, past, kMinusInf, t));
  if (l.has(3)) {
    ValueId m = l.in(3);
    const bool boolean = b.dtype(m) == DType::boolean;
    if (boolean) m = additive(b, m, kMinusInf, t);
    Dims tail = b.dims(m);
    if (tail.back() < keys && (tail.back() != 1 || l.version() >= 24)) {  // a shorter mask hides the rest
      tail.back() = keys - tail.back();
      m = concat(b, {m, filled(b, kMinusInf, t, tail)}, static_cast<int64_t>(tail.size()) - 1);
    }
    masks.push_back(m);
  }
  if (l.has(6)) {
    std::vector<int64_t> at(static_cast<size_t>(keys));
    for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<int64_t>(i);
    const ValueId lens = b.reshape(b.cast(l.in(6), DType::i64), {dq[0], 1, 1, 1});
    masks.push_back(additive(b, b.op("Less", {b.constant(HostTensor::of<int64_t>({keys}, at)), lens}), kMinusInf, t));
  }
  if (dk[1] == 0 || dq[1] % dk[1] != 0) fail(Exit::model, "E_SHAPE", cat("attention of ", dq[1], " query heads over ", dk[1]));
  const int64_t times = dq[1] / dk[1];
  const double scale = l.attrs.f("scale", 1 / std::sqrt(static_cast<double>(dq.at(3))));
  const Core c = attend(l, q, repeat_heads(b, k, times), repeat_heads(b, v, times), scale, l.attrs.f("softcap", 0), masks);
  l.out(0, flat ? merge_heads(b, c.y) : c.y);
  switch (l.attrs.i("qk_matmul_output_mode", 0)) {
    case 0: l.out(3, c.scores); break;
    case 1: l.out(3, c.capped); break;
    case 2: l.out(3, c.masked); break;
    default: l.out(3, c.weights); break;
  }
}

// com.microsoft masks: (B, S) or (B, 1..S, S) of 0 and 1, or the number of keys of each sequence (B).
ValueId contrib_mask(const Lowering& l, ValueId m, int64_t batch, int64_t keys, double masked, DType t) {
  Builder& b = l.b;
  const Dims d = b.dims(m);
  if (d.size() == 1 && d[0] == batch) {
    std::vector<int64_t> at(static_cast<size_t>(keys));
    for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<int64_t>(i);
    const ValueId lens = b.reshape(b.cast(m, DType::i64), {batch, 1, 1, 1});
    return additive(b, b.op("Less", {b.constant(HostTensor::of<int64_t>({keys}, at)), lens}), masked, t);
  }
  Dims wide = d;
  if (d.size() == 2) wide = {d[0], 1, 1, d[1]};
  else if (d.size() == 3) wide = {d[0], 1, d[1], d[2]};
  else if (d.size() != 4) l.unsupported(cat("a mask of ", to_string(d)));
  return additive(b, b.op("Greater", {b.reshape(m, wide), b.scalar(0, b.dtype(m))}), masked, t);
}

// Inputs: input (B, S, I), weights (I, 3 H), bias (3 H), mask, past, attention_bias.
void lower_contrib_attention(Lowering& l) {
  Builder& b = l.b;
  if (l.has(4)) l.unsupported("past");
  if (l.has(6) || l.attrs.i("do_rotary", 0) != 0) l.unsupported("do_rotary and past_sequence_length");
  const Dims dx = l.dims(0);
  const int64_t width = l.dims(1).at(1), heads = l.attrs.i("num_heads", 1);
  const std::vector<int64_t> sizes = l.attrs.ints("qkv_hidden_sizes", {width / 3, width / 3, width / 3});
  const DType t = b.dtype(l.in(0));
  ValueId qkv = b.op("MatMul", {l.in(0), l.in(1)});
  if (l.has(2)) qkv = add(b, qkv, l.in(2));
  std::vector<ValueId> part;
  int64_t at = 0;
  for (const int64_t n : sizes) {
    part.push_back(split_heads(b, slice(b, qkv, 2, at, n), heads));
    at += n;
  }
  const double masked = l.attrs.f("mask_filter_value", -10000), scale = l.attrs.f("scale", 0);
  std::vector<ValueId> masks;
  if (l.has(3)) masks.push_back(contrib_mask(l, l.in(3), dx[0], dx[1], masked, t));
  if (l.attrs.i("unidirectional", 0) != 0) masks.push_back(causal_mask(b, dx[1], dx[1], 0, masked, t));
  if (l.has(5)) masks.push_back(l.in(5));
  const double by_head = 1 / std::sqrt(static_cast<double>(sizes[0] / heads));
  l.out(0, merge_heads(b, attend(l, part[0], part[1], part[2], scale != 0 ? scale : by_head, 0, masks).y));
}

// Inputs: query, key, value (B, S, H), bias, key_padding_mask, attention_bias.
void lower_multi_head(Lowering& l) {
  Builder& b = l.b;
  for (size_t i = 6; i < l.n_in(); ++i) {
    if (l.has(i)) l.unsupported("past keys and values");
  }
  if (!l.has(1) || !l.has(2) || l.rank(0) != 3 || l.rank(1) != 3 || l.rank(2) != 3) l.unsupported("packed queries, keys and values");
  const int64_t heads = l.attrs.i("num_heads", 1);
  std::vector<ValueId> part;
  int64_t at = 0;
  for (size_t i = 0; i < 3; ++i) {
    ValueId x = l.in(i);
    const int64_t n = b.dims(x)[2];
    if (l.has(3)) x = add(b, x, slice(b, l.in(3), 0, at, n));
    at += n;
    part.push_back(split_heads(b, x, heads));
  }
  const DType t = b.dtype(l.in(0));
  const int64_t queries = l.dims(0)[1], keys = l.dims(1)[1];
  const double masked = l.attrs.f("mask_filter_value", -10000), scale = l.attrs.f("scale", 0);
  std::vector<ValueId> masks;
  if (l.has(4)) masks.push_back(contrib_mask(l, l.in(4), l.dims(0)[0], keys, masked, t));
  if (l.has(5)) masks.push_back(l.in(5));
  if (l.attrs.i("unidirectional", 0) != 0) masks.push_back(causal_mask(b, queries, keys, 0, masked, t));
  const double by_head = 1 / std::sqrt(static_cast<double>(l.dims(0)[2] / heads));
  l.out(0, merge_heads(b, attend(l, part[0], part[1], part[2], scale != 0 ? scale : by_head, 0, masks).y));
}

const RegisterOnnx onnx[] = {RegisterOnnx{{"Attention", lower_attention, 23, {}}},
                             RegisterOnnx{{"Attention", lower_contrib_attention, 1, "com.microsoft"}},
                             RegisterOnnx{{"MultiHeadAttention", lower_multi_head, 1, "com.microsoft"}}};

}  // namespace
}  // namespace amp
