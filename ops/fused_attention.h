// Attention as one core operator: softmax(scale Q K^T + mask) V without storing a (queries, keys) matrix. This file
// defines shapes and attributes for the kernels of all devices. ops/passes/attention_match.h forms it from unfused
// graphs.
//
// FusedAttention(q, k, v, mask?, offsets?) -> y, lse, rest
//   0 q (B, Sq, N, H)
//   1 k (B, Sk, N, H)
//   2 v (B, Sk, N, Hv)
//   3 mask, optional, rank 4, each dim 1 or that of (B, N, Sq, Sk)
//   4 offsets, optional, int64 (C + 1)
//   y (B, Sq, N, Hv) in q's type
//   lse (B, N, Sq) fp32 (fp64): the log-sum-exp of each row
//   rest, like lse: the rounding error of lse, so that lse + rest has twice the digits. For a row of scores -1e9,
//     lse is -1e9, and rest has the logarithm of the number of keys.
//   z_ij = scale q_i k_j (+ mask_ij, or where a boolean mask is false: fill);  p = softmax(z) over j;  y = dropout(p) v
// Attributes
//   scale;  fill (-inf)
//   heads_first      1: q, k, v and y are (B, N, S, H)
//   packed           1: input 0 is (B, S, 3, N, H), q, k and v of self attention; inputs 1 and 2 are absent
//   empty_rows_zero  1: a row of only -inf scores has p = 0 and lse = inf instead of NaN. If p is NaN and dy is zero,
//                    the gradient is zero.
//   ratio, site, rows  dropout of p (ops/dropout.cc): the bits of a tensor (B, N, Sq, Sk); ratio 0: none
//   max_len          with offsets: an upper bound of the sequences' lengths
// With offsets, C sequences are concatenated, B is 1, Sq = Sk, and there is no mask. Token t of sequence c, offsets[c]
// <= t < offsets[c + 1], attends only to its own sequence. Tokens from offsets[C] on give y = 0, lse = inf and no
// gradients. Dropout uses element (n max_len + i) max_len + j of sample c, for positions i, j in the sequence.
//
// FusedAttentionGrad(q, k, v, mask, offsets, y, lse, dy, rest) -> dq, dk, dv (packed: one), in the layouts of q, k, v.
// The mask has no gradient.
//   p = exp((z - lse) - rest), r = dropout(p), d_i = sum dy_i y_i;  dv = r^T dy;
//   ds = p (dropout(dy v^T) - d), 0 where a boolean mask hides a key;  dq = scale ds k, dk = scale ds^T q
// (Dao et al., FlashAttention, 2022, algorithm 4)
#pragma once

#include <limits>

#include "base/error.h"
#include "graph/attrs.h"
#include "ops/dropout.h"

namespace amp {

struct AttentionForm {
  // Distances in elements. Element (b, t, h, 0) has the index offset + b * batch + t * token + h * head. The last axis
  // is contiguous.
  struct Strides {
    int64_t offset = 0, batch = 0, token = 0, head = 0;
  };

  int64_t batch = 0, heads = 0, queries = 0, keys = 0, width = 0, value_width = 0;
  Strides q, k, v, y;
  int64_t mask[4] = {};  // strides in elements; 0 if the mask's dim is 1
  bool packed = false, heads_first = false;
  double scale = 1, fill = 0;
  bool empty_rows_zero = false;
  DropoutBits dropout;
  int64_t samples = 1;    // for dropout: the attribute `rows` if it divides p's elements, else 1
  int64_t sequences = 0;  // C if there are offsets; max_len is then the longest sequence
  int64_t max_len = 0;

  // Number of independent units of work: heads times sequences (if there are offsets) or batch entries.
  int64_t units() const { return (sequences ? sequences : batch) * heads; }
  int64_t longest_query() const { return sequences ? max_len : queries; }
  int64_t longest_key() const { return sequences ? max_len : keys; }
};

namespace attention_detail {
inline AttentionForm::Strides strides_of(const Dims& d, bool heads_first) {
  const int64_t width = d[3];
  if (heads_first) return {0, d[1] * d[2] * width, width, d[2] * width};
  return {0, d[1] * d[2] * width, d[2] * width, width};
}
}  // namespace attention_detail

// Returns the form of attention for inputs of these dims; the dims of absent inputs are empty. Inconsistent
// inputs are a model error. (Defined in the header because the CUDA plugin contains kernels but no operators.)
inline AttentionForm attention_form(const Attrs& attrs, const Dims& dq, const Dims& dk, const Dims& dv,
                                    const Dims& mask, const Dims& offsets) {
  AttentionForm f;
  f.packed = attrs.i("packed", 0) != 0;
  f.heads_first = attrs.i("heads_first", 0) != 0;
  const auto refuse = [&] {
    fail(Exit::model, "E_SHAPE",
         cat("fused attention of ", to_string(dq), ", ", to_string(dk), " and ", to_string(dv)));
  };
  const size_t s = f.heads_first ? 2 : 1, n = 3 - s;
  if (f.packed) {
    if (dq.size() != 5 || dq[2] != 3 || f.heads_first) refuse();
    f.batch = dq[0], f.queries = f.keys = dq[1], f.heads = dq[3], f.width = f.value_width = dq[4];
    const int64_t row = f.heads * f.width;
    f.q = {0, 3 * row * f.queries, 3 * row, f.width};
    f.k = f.v = f.q;
    f.k.offset = row;
    f.v.offset = 2 * row;
    f.y = {0, row * f.queries, row, f.width};
  } else {
    if (dq.size() != 4 || dk.size() != 4 || dv.size() != 4) refuse();
    f.batch = dq[0], f.heads = dq[n], f.queries = dq[s], f.keys = dk[s], f.width = dq[3], f.value_width = dv[3];
    if (dk[0] != f.batch || dv[0] != f.batch || dk[n] != f.heads || dv[n] != f.heads || dv[s] != f.keys ||
        dk[3] != f.width)
      refuse();
    f.q = attention_detail::strides_of(dq, f.heads_first), f.k = attention_detail::strides_of(dk, f.heads_first),
    f.v = attention_detail::strides_of(dv, f.heads_first);
    Dims y = dq;
    y[3] = f.value_width;
    f.y = attention_detail::strides_of(y, f.heads_first);
  }
  if (!mask.empty()) {
    const int64_t full[4] = {f.batch, f.heads, f.queries, f.keys};
    int64_t step = 1;
    for (size_t d = 4; d-- > 0;) {
      if (mask.size() != 4 || (mask[d] != 1 && mask[d] != full[d]))
        fail(Exit::model, "E_SHAPE", cat("an attention mask of ", to_string(mask)));
      f.mask[d] = mask[d] == 1 ? 0 : step;
      step *= mask[d];
    }
  }
  f.scale = attrs.f("scale", 1);
  f.fill = attrs.f("fill", -std::numeric_limits<double>::infinity());
  f.empty_rows_zero = attrs.i("empty_rows_zero", 0) != 0;
  f.dropout = dropout_bits(attrs);
  const int64_t rows = attrs.i("rows", 1), cells = f.batch * f.heads * f.queries * f.keys;
  f.samples = rows > 0 && cells % rows == 0 ? rows : 1;
  if (!offsets.empty()) {
    f.sequences = offsets[0] - 1;
    f.max_len = attrs.i("max_len", f.queries);
    if (f.batch != 1 || f.queries != f.keys || !mask.empty() || offsets.size() != 1 || f.sequences < 0) refuse();
  }
  return f;
}

}  // namespace amp
