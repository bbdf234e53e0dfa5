// Attention as one core operator: softmax(scale Q K^T + mask) V with no (queries, keys) matrix kept. What an operator's
// shapes and attributes mean, for kernels on any device. Composites form it (ops/attention_match.h).
//
// FusedAttention: in 0 q (B, Sq, N, H), 1 k (B, Sk, N, H), 2 v (B, Sk, N, Hv), 3 mask (optional, rank 4, each dim 1 or
// that of (B, N, Sq, Sk)), 4 offsets (optional, int64 (C + 1)); out 0 y (B, Sq, N, Hv) as q is stored, out 1 lse
// (B, N, Sq) fp32 (fp64), the logarithm of the sum of the exponentials.
//   z_ij = scale q_i k_j (+ mask_ij, or where a boolean mask is false: fill);  p = softmax(z) over j;  y = dropout(p) v
// Attributes
//   scale;  fill (-inf)
//   heads_first      1: q, k, v and y are (B, N, S, H)
//   packed           1: input 0 is (B, S, 3, N, H), q, k and v of self attention; inputs 1 and 2 are absent
//   empty_rows_zero  1: a row whose z are -inf throughout has p = 0 and lse = inf, instead of NaN
//   ratio, site, rows  dropout of p (ops/dropout.cc): the bits of a tensor (B, N, Sq, Sk); ratio 0: none
//   max_len          with offsets: no sequence is longer
// offsets: C sequences lie one behind the other, B is 1, Sq = Sk, there is no mask: token t of sequence c, offsets[c] <= t
// < offsets[c + 1], sees its own sequence alone. Tokens behind offsets[C] give y = 0, lse = inf and no gradients. Dropout:
// element (n max_len + i) max_len + j of sample c, i and j counted in the sequence.
//
// FusedAttentionGrad: in q, k, v, mask, offsets, y, lse, dy; out dq, dk, dv (packed: one) as q, k, v are. The mask has no
// gradient.
//   p = exp(z - lse), r = dropout(p), d_i = sum dy_i y_i;  dv = r^T dy;  ds = p (dropout(dy v^T) - d), 0 where a boolean
//   mask hides;  dq = scale ds k, dk = scale ds^T q        (Dao et al., FlashAttention, 2022, algorithm 4)
#pragma once

#include "graph/attrs.h"
#include "ops/dropout.h"

namespace amp {

struct AttentionForm {
  // Where element (b, token, head, 0) lies: offset + b batch + token token + head head; the width is contiguous.
  struct Strides { int64_t offset = 0, batch = 0, token = 0, head = 0; };

  int64_t batch = 0, heads = 0, queries = 0, keys = 0, width = 0, value_width = 0;
  Strides q, k, v, y;
  int64_t mask[4] = {};       // strides in elements, 0 where it broadcasts
  bool packed = false, heads_first = false;
  double scale = 1, fill = 0;
  bool empty_rows_zero = false;
  DropoutBits dropout;
  int64_t samples = 1;        // rows, where it divides
  int64_t sequences = 0;      // with offsets: C; max_len bounds queries and keys
  int64_t max_len = 0;

  // By sequences: C and batch entries alike.
  int64_t units() const { return (sequences ? sequences : batch) * heads; }
  int64_t longest_query() const { return sequences ? max_len : queries; }
  int64_t longest_key() const { return sequences ? max_len : keys; }
};

// Dims of the inputs, empty when absent. Inputs that do not fit are a model error.
AttentionForm attention_form(const Attrs& attrs, const Dims& q, const Dims& k, const Dims& v, const Dims& mask, const Dims& offsets);

}  // namespace amp
