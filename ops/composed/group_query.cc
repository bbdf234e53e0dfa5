// com.microsoft GroupQueryAttention: causal attention of decoder exports, with several query heads per key/value head,
// rotary positions, a local window, softcap and sinks. Training computes whole sequences without a past. With causal
// attention no token attends to the padding after it, so seqlens_k matters only if causal is 0. Generation feeds a past
// of P positions, of which the first seqlens_k + 1 - S are used (S: new positions). Keys of past and new positions are
// concatenated as (P + S), and a mask hides the unused positions; so the number of used positions may depend on data.
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/new_positions.h"
#include "graph/op.h"
#include "ops/compose.h"
#include "ops/composed/attention.h"
#include "ops/composed/rotary.h"

namespace amp {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

ValueId normalized(const Lowering& l, ValueId x, size_t weight) {
  if (!l.has(weight)) return x;
  Builder& b = l.b;
  const ValueId rms = b.op("Sqrt", {shifted(b, mean(b, mul(b, x, x), {3}), l.attrs.f("qk_norm_epsilon", 1e-6))});
  return mul(b, div(b, x, rms), l.in(weight));
}

// Applies the rotary embedding. The tables of cos and sin are (max, R/2). positions: (B, S) if there is a past, else
// invalid; the node's position ids (B, S), if it has any, take precedence.
ValueId turned(const Lowering& l, ValueId x, ValueId positions) {
  Builder& b = l.b;
  if (l.attrs.i("do_rotary", 0) == 0) return x;
  const int64_t time = b.dims(x)[2], half = l.dims(7).at(1);
  if (l.has(9) && l.rank(9) == 2) positions = l.in(9);
  ValueId table[2];
  for (size_t i = 0; i < 2; ++i) {
    if (positions) {
      table[i] = b.reshape(lookup(b, l.in(7 + i), positions), {b.dims(positions)[0], 1, time, half});
    } else {
      if (l.dims(7)[0] < time)
        fail(Exit::model, "E_SHAPE", cat("GroupQueryAttention: ", time, " positions, rotary tables of ", l.dims(7)[0]));
      table[i] = b.reshape(slice(b, l.in(7 + i), 0, 0, time), {1, 1, time, half});
    }
  }
  return rotate(b, x, table[0], table[1], l.attrs.i("rotary_interleaved", 0) != 0);
}

// Returns the number of positions of the past, including unused ones.
int64_t past_positions(const Lowering& l) {
  if (!l.has(3) || !l.has(4)) return 0;
  const int64_t past = l.dims(3).at(2);
  if (l.dims(4).at(2) != past)
    fail(Exit::model, "E_SHAPE",
         cat("GroupQueryAttention: past keys ", to_string(l.dims(3)), ", past values ", to_string(l.dims(4))));
  if (past == 0) return 0;
  if (l.attrs.i("causal", 1) == 0) l.unsupported("a past of attention that is not causal");
  if (l.has(10)) l.unsupported("a past with attention_bias");
  if (l.attrs.i("sliding_window_cache", 0) != 0) l.unsupported("a past in a ring buffer (sliding_window_cache)");
  if (l.attrs.i(kNewPositions, 0) == 0 && (l.wanted(1) || l.wanted(2)))
    l.unsupported("the present of a past with positions");
  return past;
}

ValueId counted(Builder& b, int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return b.constant(HostTensor::of<int64_t>({n}, out));
}

// Returns the mask (B, 1, S, P + S) of S new positions after a past of P positions. used: (B), how many of these P are
// used.
ValueId past_mask(Builder& b, ValueId used, int64_t past, int64_t time, int64_t window, DType t) {
  const int64_t batch = b.dims(used)[0];
  const ValueId at = b.reshape(used, {batch, 1, 1, 1}), keys = counted(b, past);
  ValueId seen = b.op("Less", {keys, at});
  if (window > 0) {
    const ValueId query = add(b, at, b.reshape(counted(b, time), {time, 1}));
    seen = b.op("And", {seen, b.op("Less", {shifted(b, query, static_cast<double>(-window)), keys})});
  }
  const ValueId old = b.expand(additive(b, seen, kMasked, t), {batch, 1, time, past});
  const ValueId fresh = b.expand(causal_mask(b, time, time, 0, kMasked, t, window), {batch, 1, time, time});
  return concat(b, {old, fresh}, 3);
}

// Returns attention for one new position. The query heads that share a key/value head become rows of one product, so
// that keys and values are not repeated.
ValueId attend_one(const Lowering& l, ValueId q, ValueId k, ValueId v, double scale, ValueId mask) {
  Builder& b = l.b;
  const Dims dq = b.dims(q), dk = b.dims(k);
  const ValueId rows = b.reshape(q, {dq[0], dk[1], dq[1] / dk[1], dq[3]});
  const ValueId y = attend(l, rows, k, v, scale, l.attrs.f("softcap", 0), {mask}).y;
  return b.reshape(y, {dq[0], dq[1], 1, b.dims(v)[3]});
}

// Lowers GroupQueryAttention. Inputs: query (B, S, H), key, value (or all in query), past_key, past_value, seqlens_k,
// total_sequence_length, cos, sin, position_ids, attention_bias, head_sink, k_scale, v_scale, q_norm_weight,
// k_norm_weight.
void lower_group_query(Lowering& l) {
  Builder& b = l.b;
  const bool integers = (l.has(3) && !is_float(b.dtype(l.in(3)))) || (l.has(4) && !is_float(b.dtype(l.in(4))));
  if (l.has(12) || l.has(13) || integers) l.unsupported("a quantized cache");
  const int64_t past = past_positions(l);
  const int64_t heads = l.attrs.i("num_heads", 0), kv = l.attrs.i("kv_num_heads", 0);
  if (heads <= 0 || kv <= 0 || heads % kv != 0)
    fail(Exit::model, "E_ATTR", cat("GroupQueryAttention with ", heads, " and ", kv, " heads"));
  ValueId part[3];
  if (l.has(1)) {
    for (size_t i = 0; i < 3; ++i) part[i] = split_heads(b, l.in(i), i == 0 ? heads : kv);
  } else {
    const int64_t width = l.dims(0).at(2);
    if (width % (heads + 2 * kv) != 0)
      fail(Exit::model, "E_SHAPE",
           cat("GroupQueryAttention: packed width ", width, " of ", heads, " + 2 * ", kv, " heads"));
    const int64_t head = width / (heads + 2 * kv);
    part[0] = split_heads(b, slice(b, l.in(0), 2, 0, heads * head), heads);
    part[1] = split_heads(b, slice(b, l.in(0), 2, heads * head, kv * head), kv);
    part[2] = split_heads(b, slice(b, l.in(0), 2, (heads + kv) * head, kv * head), kv);
  }
  const int64_t time = b.dims(part[0])[2], window = l.attrs.i("local_window_size", -1);
  // Used (B): number of used past positions; positions (B, S): those of the new tokens.
  ValueId used, positions;
  if (past > 0) {
    used = shifted(b, b.cast(b.reshape(l.in(5), {numel(l.dims(5))}), DType::i64), static_cast<double>(1 - time));
    positions = add(b, b.reshape(used, {b.dims(used)[0], 1}), counted(b, time));
  }
  const ValueId q = turned(l, normalized(l, part[0], 14), positions);
  ValueId k = turned(l, normalized(l, part[1], 15), positions), v = part[2];
  l.out(1, k);
  l.out(2, v);
  if (past > 0) {
    k = concat(b, {l.in(3), k}, 2);
    v = concat(b, {l.in(4), v}, 2);
  }
  const Dims d = b.dims(q);
  const DType t = b.dtype(q);
  std::vector<ValueId> masks;
  if (past > 0)
    masks.push_back(past_mask(b, used, past, time, window > 0 ? window : 0, t));
  else if (l.attrs.i("causal", 1) != 0)
    masks.push_back(causal_mask(b, time, time, 0, kMasked, t, window > 0 ? window : 0));
  else
    masks.push_back(length_mask(b, shifted(b, b.cast(l.in(5), DType::i64), 1), time, kMasked, t));
  if (l.has(10)) masks.push_back(slice(b, l.in(10), 3, 0, time));
  ValueId sink;
  if (l.has(11))
    sink = l.in(11);
  else if (l.attrs.i("smooth_softmax", 0) == 1)
    sink = filled(b, 0, t, {heads});
  const double asked = l.attrs.f("scale", 0), scale = asked != 0 ? asked : 1 / std::sqrt(static_cast<double>(d[3]));
  if (past > 0 && time == 1 && !sink) return l.out(0, merge_heads(b, attend_one(l, q, k, v, scale, masks[0])));
  const ValueId y = attend(l, q, repeat_heads(b, k, heads / kv), repeat_heads(b, v, heads / kv), scale,
                           l.attrs.f("softcap", 0), masks, sink)
                        .y;
  l.out(0, merge_heads(b, y));
}
const RegisterOnnx group_query_onnx{{"GroupQueryAttention", lower_group_query, 1, "com.microsoft"}};

}  // namespace
}  // namespace amp
