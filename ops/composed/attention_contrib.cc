// com.microsoft Attention and MultiHeadAttention. Past keys and values are concatenated before the new ones; the result
// is also the output `present`.
#include <cmath>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"
#include "ops/composed/attention.h"

namespace amp {
namespace {

// Returns an additive mask for the input m, which is (B, keys) or (B, 1..S, keys) of 0 and 1, or the number of keys of
// each sequence (B).
ValueId contrib_mask(const Lowering& l, ValueId m, int64_t batch, int64_t keys, double masked, DType t) {
  Builder& b = l.b;
  const Dims d = b.dims(m);
  if (d.size() == 1 && d[0] == batch) return length_mask(b, m, keys, masked, t);
  Dims wide = d;
  if (d.size() == 2)
    wide = {d[0], 1, 1, d[1]};
  else if (d.size() == 3)
    wide = {d[0], 1, d[1], d[2]};
  else if (d.size() != 4)
    l.unsupported(cat("a mask of ", to_string(d)));
  return additive(b, b.op("Greater", {b.reshape(m, wide), b.scalar(0, b.dtype(m))}), masked, t);
}

double scale_of(const Lowering& l, int64_t head) {
  const double scale = l.attrs.f("scale", 0);
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(head));
}

// Lowers com.microsoft Attention. Inputs: input (B, S, I), weights (I, 3 * H), bias (3 * H), mask, past (2, B, N, P,
// D), attention_bias.
void lower_contrib_attention(Lowering& l) {
  Builder& b = l.b;
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
  const int64_t past = l.has(4) ? l.dims(4).at(3) : 0;
  for (size_t i = 1; i < 3 && past > 0; ++i)
    part[i] = concat(b, {entry(b, l.in(4), static_cast<int64_t>(i) - 1), part[i]}, 2);
  if (l.wanted(1)) {
    Dims one = b.dims(part[1]);
    one.insert(one.begin(), 1);
    l.out(1, concat(b, {b.reshape(part[1], one), b.reshape(part[2], one)}, 0));
  }
  const double masked = l.attrs.f("mask_filter_value", -10000);
  std::vector<ValueId> masks;
  if (l.has(3)) masks.push_back(contrib_mask(l, l.in(3), dx[0], past + dx[1], masked, t));
  if (l.attrs.i("unidirectional", 0) != 0) masks.push_back(causal_mask(b, dx[1], past + dx[1], past, masked, t));
  if (l.has(5)) masks.push_back(l.in(5));
  l.out(0, merge_heads(b, attend(l, part[0], part[1], part[2], scale_of(l, sizes[0] / heads), 0, masks).y));
}

// Returns entry i of axis 3 of x (B, S, N, k, D), as (B, N, S, D).
ValueId unpacked(Builder& b, ValueId x, int64_t i) {
  const Dims d = b.dims(x);
  return b.transpose(b.reshape(slice(b, x, 3, i, 1), {d[0], d[1], d[2], d[4]}), {0, 2, 1, 3});
}

// Lowers MultiHeadAttention. Inputs: query, key, value (B, S, H), bias, key_padding_mask, attention_bias, past_key,
// past_value (B, N, P, D). query may contain key and value too (B, S, N, 3, D); key may contain value (B, S, N, 2, D).
// key and value may be split into heads already (B, N, S, D).
void lower_multi_head(Lowering& l) {
  Builder& b = l.b;
  for (size_t i = 8; i < l.n_in(); ++i) {
    if (l.has(i)) l.unsupported("a past in a shared buffer");
  }
  const int64_t heads = l.attrs.i("num_heads", 1);
  std::vector<ValueId> part;
  if (l.rank(0) == 5 && l.dims(0)[3] == 3 && !l.has(1) && !l.has(2)) {
    for (int64_t i = 0; i < 3; ++i) part.push_back(unpacked(b, l.in(0), i));
  } else {
    if (!l.has(1) || l.rank(0) != 3 || (!l.has(2) && l.rank(1) != 5))
      l.unsupported(cat("a query of ", to_string(l.dims(0)), " with these inputs"));
    part.push_back(split_heads(b, l.in(0), heads));
    for (size_t i = 1; i < 3; ++i) {
      const bool packed = l.rank(1) == 5;
      if (packed)
        part.push_back(unpacked(b, l.in(1), static_cast<int64_t>(i) - 1));
      else
        part.push_back(l.rank(i) == 4 ? l.in(i) : split_heads(b, l.in(i), heads));
    }
  }
  int64_t at = 0;
  for (ValueId& x : part) {  // adds this input's part of the bias (3 * H)
    const int64_t head = b.dims(x)[3], n = heads * head;
    if (l.has(3)) x = add(b, x, b.reshape(slice(b, l.in(3), 0, at, n), {heads, 1, head}));
    at += n;
  }
  const int64_t past = l.has(6) ? l.dims(6).at(2) : 0;
  if (past > 0) {
    part[1] = concat(b, {l.in(6), part[1]}, 2);
    part[2] = concat(b, {l.in(7), part[2]}, 2);
  }
  l.out(1, part[1]);
  l.out(2, part[2]);
  const DType t = b.dtype(l.in(0));
  const int64_t batch = l.dims(0)[0], queries = b.dims(part[0])[2], keys = b.dims(part[1])[2];
  const double masked = l.attrs.f("mask_filter_value", -10000);
  std::vector<ValueId> masks;
  if (l.has(4)) masks.push_back(contrib_mask(l, l.in(4), batch, keys, masked, t));
  if (l.has(5)) masks.push_back(l.in(5));
  if (l.attrs.i("unidirectional", 0) != 0) masks.push_back(causal_mask(b, queries, keys, past, masked, t));
  l.out(0, merge_heads(b, attend(l, part[0], part[1], part[2], scale_of(l, b.dims(part[0])[3]), 0, masks).y));
}

const RegisterOnnx attention_contrib_onnx[] = {
    RegisterOnnx{{"Attention", lower_contrib_attention, 1, "com.microsoft"}},
    RegisterOnnx{{"MultiHeadAttention", lower_multi_head, 1, "com.microsoft"}}};

}  // namespace
}  // namespace amp
