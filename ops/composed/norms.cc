// GroupNormalization (ONNX 18: scale by group, 21: by channel), LpNormalization (1), LRN (1),
// MeanVarianceNormalization (9), and com.microsoft SkipLayerNormalization, SkipSimplifiedLayerNormalization,
// EmbedLayerNormalization, composed of core operators.
#include <algorithm>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/axis_map.h"
#include "ops/compose.h"

namespace amp {
namespace {

// Lowers GroupNormalization. Normalizes each (image, group) by its own statistics, which is a batch normalization of
// one image with N * G channels. Then scales each channel.
void lower_group_norm(Lowering& l) {
  Builder& b = l.b;
  const Dims x = l.dims(0);
  const int64_t groups = l.attrs.i("num_groups", 0);
  if (x.size() < 2 || groups <= 0 || x[1] % groups != 0)
    fail(Exit::model, "E_ATTR", cat("GroupNormalization of ", to_string(x), " in ", groups, " groups"));
  const int64_t wanted = l.version() < 21 ? groups : x[1];
  for (const size_t i : {1, 2}) {
    if (numel(l.dims(i)) != wanted)
      fail(Exit::model, "E_SHAPE",
           cat("GroupNormalization's ", i == 1 ? "scale" : "bias", " has ", numel(l.dims(i)), " elements, ", wanted,
               " are needed: one for each ", l.version() < 21 ? "group before opset 21" : "channel from opset 21 on"));
  }
  const DType t = b.dtype(l.in(0));
  const int64_t rows = x[0] * groups, n = rows > 0 ? numel(x) / rows : 0;
  const ValueId one = filled(b, 1, t, {rows}), zero = filled(b, 0, t, {rows});
  const auto h =
      b.ops("BatchNormTrain", {b.reshape(l.in(0), {1, rows, n}), one, zero}, {{"epsilon", l.attrs.f("epsilon", 1e-5)}});
  Dims line(x.size(), 1);
  line[1] = x[1];
  const auto by_channel = [&](size_t i) {
    ValueId v = l.in(i);
    if (l.version() < 21 && groups != x[1])
      v = b.reshape(b.expand(b.reshape(v, {groups, 1}), {groups, x[1] / groups}), {x[1]});
    return b.reshape(v, line);
  };
  l.out(0, add(b, mul(b, b.reshape(h[0], x), by_channel(1)), by_channel(2)));
}

// Lowers LpNormalization: divides x by its p-norm; the result is 0 where the norm is 0.
void lower_lp_norm(Lowering& l) {
  Builder& b = l.b;
  const int64_t p = l.attrs.i("p", 2), axis = normalize_axis(l.attrs.i("axis", -1), l.rank(0));
  if (p != 1 && p != 2) fail(Exit::model, "E_ATTR", cat("LpNormalization: p is ", p));
  const ValueId x = l.in(0);
  const DType t = b.dtype(x);
  const ValueId sum = b.reduce_sum(p == 1 ? b.op("Abs", {x}) : mul(b, x, x), {axis}, true);
  const ValueId safe = b.op("Where", {b.op("Equal", {sum, b.scalar(0, t)}), b.scalar(1, t), sum});
  l.out(0, div(b, x, p == 1 ? safe : b.op("Sqrt", {safe})));
}

// Lowers LRN: x / (bias + alpha/size * sum of squares over `size` neighboring channels)^beta.
void lower_lrn(Lowering& l) {
  Builder& b = l.b;
  const ValueId x = l.in(0);
  const int64_t size = l.attrs.i("size", 1), channels = l.dims(0).at(1);
  AxisMap window;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = std::max<int64_t>(0, c - (size - 1) / 2); i <= std::min(channels - 1, c + size / 2); ++i)
      window.add(i, 1);
    window.end_row();
  }
  const ValueId sum = map_axis(b, mul(b, x, x), 1, window);
  const ValueId base =
      shifted(b, scaled(b, sum, l.attrs.f("alpha", 1e-4) / static_cast<double>(size)), l.attrs.f("bias", 1));
  l.out(0, div(b, x, b.op("Pow", {base, b.scalar(l.attrs.f("beta", 0.75), b.dtype(x))})));
}

// Lowers MeanVarianceNormalization: (x - mean) / (deviation + 1e-9). If all elements are equal, the deviation is
// replaced by 1: the result is still 0, and the gradient is finite.
void lower_mvn(Lowering& l) {
  Builder& b = l.b;
  std::vector<int64_t> axes = l.attrs.ints("axes", {0, 2, 3});
  for (int64_t& a : axes) a = normalize_axis(a, l.rank(0));
  const ValueId centered = sub(b, l.in(0), mean(b, l.in(0), axes));
  const ValueId variance = mean(b, mul(b, centered, centered), axes);
  const DType t = b.dtype(variance);
  const ValueId deviation =
      b.op("Sqrt", {b.op("Where", {b.op("Equal", {variance, b.scalar(0, t)}), b.scalar(1, t), variance})});
  l.out(0, div(b, centered, shifted(b, deviation, 1e-9)));
}

std::vector<ValueId> last_axis_norm(const Lowering& l, ValueId x, ValueId scale, ValueId bias, bool rms,
                                    double epsilon) {
  std::vector<ValueId> in{x, scale};
  if (bias) in.push_back(bias);
  return l.b.ops("LayerNorm", in, {{"n", l.b.dims(x).back()}, {"epsilon", epsilon}, {"rms", int64_t{rms}}});
}

// Lowers SkipLayerNormalization. Inputs: input, skip, gamma, beta (not in the simplified form), bias. Outputs: y, mean,
// 1/deviation, and the sum before the norm.
void lower_skip_norm(Lowering& l, bool rms) {
  Builder& b = l.b;
  const size_t bias_at = rms ? 3 : 4;
  ValueId sum = add(b, l.in(0), l.in(1));
  if (l.has(bias_at)) sum = add(b, sum, l.in(bias_at));
  const auto y =
      last_axis_norm(l, sum, l.in(2), !rms && l.has(3) ? l.in(3) : ValueId{}, rms, l.attrs.f("epsilon", 1e-12));
  l.out(0, y[0]);
  Dims stat = b.dims(sum);
  stat.back() = 1;
  if (l.wanted(1)) l.out(1, b.reshape(y[1], stat));
  if (l.wanted(2)) l.out(2, b.reshape(y[2], stat));
  l.out(3, sum);
}
void lower_skip_layer_norm(Lowering& l) { lower_skip_norm(l, false); }
void lower_skip_rms_norm(Lowering& l) { lower_skip_norm(l, true); }

// Lowers EmbedLayerNormalization. Inputs: input_ids, segment_ids, word, position and segment embeddings, gamma, beta,
// mask, position_ids.
void lower_embed_norm(Lowering& l) {
  Builder& b = l.b;
  const Dims ids = l.dims(0);
  ValueId sum = lookup(b, l.in(2), l.in(0));
  if (l.has(8))
    sum = add(b, sum, lookup(b, l.in(3), l.in(8)));
  else
    sum = add(b, sum, slice(b, l.in(3), 0, 0, ids.at(1)));
  if (l.has(1) && l.has(4)) sum = add(b, sum, lookup(b, l.in(4), l.in(1)));
  l.out(0, last_axis_norm(l, sum, l.in(5), l.in(6), false, l.attrs.f("epsilon", 1e-12))[0]);
  if (l.wanted(1)) {  // output 1 is the number of unmasked tokens
    l.out(1, l.has(7) ? b.reduce_sum(b.cast(l.in(7), DType::i32), {1}, false) : filled(b, 0, DType::i32, {ids.at(0)}));
  }
  l.out(2, sum);
}

const RegisterOnnx norms_onnx[] = {
    RegisterOnnx{{"GroupNormalization", lower_group_norm, 18, {}}},
    RegisterOnnx{{"LpNormalization", lower_lp_norm, 1, {}}},
    RegisterOnnx{{"LRN", lower_lrn, 1, {}}},
    RegisterOnnx{{"MeanVarianceNormalization", lower_mvn, 9, {}}},
    RegisterOnnx{{"SkipLayerNormalization", lower_skip_layer_norm, 1, "com.microsoft"}},
    RegisterOnnx{{"SkipSimplifiedLayerNormalization", lower_skip_rms_norm, 1, "com.microsoft"}},
    RegisterOnnx{{"EmbedLayerNormalization", lower_embed_norm, 1, "com.microsoft"}}};

}  // namespace
}  // namespace amp
