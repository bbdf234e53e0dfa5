// com.microsoft GroupQueryAttention: causal attention of decoder exports, with several query heads per key/value
// head, rotary positions, a local window, softcap and sinks.
// Only whole sequences without past are supported, as in training. In causal attention tokens do not see the
// padding after them, so seqlens_k matters only if causal is 0.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "graph/lower.h"
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

// Applies the rotary embedding. The tables of cos and sin are (max, R/2). Position ids are (B, S) or absent.
ValueId turned(const Lowering& l, ValueId x) {
  Builder& b = l.b;
  if (l.attrs.i("do_rotary", 0) == 0) return x;
  const int64_t time = b.dims(x)[2], half = l.dims(7).at(1);
  ValueId table[2];
  for (size_t i = 0; i < 2; ++i) {
    if (l.has(9) && l.rank(9) == 2) {
      table[i] = b.reshape(lookup(b, l.in(7 + i), l.in(9)), {l.dims(9)[0], 1, time, half});
    } else {
      if (l.dims(7)[0] < time)
        fail(Exit::model, "E_SHAPE", cat("GroupQueryAttention: ", time, " positions, rotary tables of ", l.dims(7)[0]));
      table[i] = b.reshape(slice(b, l.in(7 + i), 0, 0, time), {1, 1, time, half});
    }
  }
  return rotate(b, x, table[0], table[1], l.attrs.i("rotary_interleaved", 0) != 0);
}

// Inputs: query (B, S, H), key, value (or all in query), past_key, past_value, seqlens_k, total_sequence_length, cos,
// sin, position_ids, attention_bias, head_sink, k_scale, v_scale, q_norm_weight, k_norm_weight.
void lower_group_query(Lowering& l) {
  Builder& b = l.b;
  for (const size_t i : {size_t{3}, size_t{4}}) {
    if (l.has(i) && l.dims(i).at(2) != 0)
      l.unsupported(
          cat("a past of ", l.dims(i)[2], " positions; feed past_key and past_value of shape (batch, heads, 0, size)"));
  }
  if (l.has(12) || l.has(13)) l.unsupported("a quantized cache");
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
  const ValueId q = turned(l, normalized(l, part[0], 14)), k = turned(l, normalized(l, part[1], 15)), v = part[2];
  l.out(1, k);
  l.out(2, v);
  const Dims d = b.dims(q);
  const int64_t time = d[2], window = l.attrs.i("local_window_size", -1);
  const DType t = b.dtype(q);
  std::vector<ValueId> masks;
  if (l.attrs.i("causal", 1) != 0)
    masks.push_back(causal_mask(b, time, time, 0, kMasked, t, window > 0 ? window : 0));
  else
    masks.push_back(length_mask(b, shifted(b, b.cast(l.in(5), DType::i64), 1), time, kMasked, t));
  if (l.has(10)) masks.push_back(slice(b, l.in(10), 3, 0, time));
  ValueId sink;
  if (l.has(11))
    sink = l.in(11);
  else if (l.attrs.i("smooth_softmax", 0) == 1)
    sink = filled(b, 0, t, {heads});
  const double scale = l.attrs.f("scale", 0), by_head = 1 / std::sqrt(static_cast<double>(d[3]));
  const ValueId y = attend(l, q, repeat_heads(b, k, heads / kv), repeat_heads(b, v, heads / kv),
                           scale != 0 ? scale : by_head, l.attrs.f("softcap", 0), masks, sink)
                        .y;
  l.out(0, merge_heads(b, y));
}
const RegisterOnnx group_query_onnx{{"GroupQueryAttention", lower_group_query, 1, "com.microsoft"}};

}  // namespace
}  // namespace amp
