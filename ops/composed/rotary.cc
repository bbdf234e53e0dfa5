// RotaryEmbedding (ONNX 23, com.microsoft): rotates pairs (x1, x2) of each head by an angle that depends on the
// position:
//   real = cos x1 - sin x2,  imag = sin x1 + cos x2.
// A pair consists of corresponding elements of the head's two halves or, if interleaved, of two neighbors.
#include "ops/composed/rotary.h"

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"

namespace amp {

ValueId rotate(Builder& b, ValueId x, ValueId cos, ValueId sin, bool interleaved) {
  const Dims d = b.dims(x);
  const int64_t half = b.dims(cos).back(), turned = 2 * half;
  const ValueId head = slice(b, x, 3, 0, turned);
  const ValueId x1 = interleaved ? slice(b, head, 3, 0, half, 2) : slice(b, head, 3, 0, half);
  const ValueId x2 = interleaved ? slice(b, head, 3, 1, half, 2) : slice(b, head, 3, half, half);
  const ValueId real = sub(b, mul(b, cos, x1), mul(b, sin, x2)), imag = add(b, mul(b, sin, x1), mul(b, cos, x2));
  ValueId y;
  if (interleaved) {
    const Dims pair{d[0], d[1], d[2], half, 1}, flat{d[0], d[1], d[2], turned};
    y = b.reshape(concat(b, {b.reshape(real, pair), b.reshape(imag, pair)}, 4), flat);
  } else {
    y = concat(b, {real, imag}, 3);
  }
  return turned == d[3] ? y : concat(b, {y, slice(b, x, 3, turned, d[3] - turned)}, 3);
}

namespace {

// Lowers a rotation. cos and sin are (max_position, R/2) with position ids (B, S), or (B, S, R/2) without ids.
void lower(Lowering& l, ValueId cos, ValueId sin, ValueId ids) {
  Builder& b = l.b;
  const Dims d = l.dims(0);
  const bool flat = d.size() == 3;
  if (ids) {
    cos = lookup(b, cos, ids);
    sin = lookup(b, sin, ids);
  }
  ValueId x = l.in(0);
  if (flat) {
    int64_t heads = l.attrs.i("num_heads", 0);
    const int64_t part = l.attrs.i("rotary_embedding_dim", 0);
    if (heads == 0 && part == 0) heads = d[2] / (2 * b.dims(cos).back());
    if (heads <= 0 || d[2] % heads != 0)
      fail(Exit::model, "E_ATTR", cat("RotaryEmbedding of ", to_string(d), " with num_heads ", heads));
    x = b.reshape(x, {d[0], d[1], heads, d[2] / heads});
  }
  const Dims c = b.dims(cos);
  if (c.size() != 3)
    fail(Exit::model, "E_SHAPE", cat("RotaryEmbedding: caches of ", to_string(c), " without position ids"));
  const Dims line = flat ? Dims{c[0], c[1], 1, c[2]} : Dims{c[0], 1, c[1], c[2]};
  const ValueId y = rotate(b, x, b.reshape(cos, line), b.reshape(sin, line), l.attrs.i("interleaved", 0) != 0);
  l.out(0, b.reshape(y, d));
}
void lower_rotary(Lowering& l) { lower(l, l.in(1), l.in(2), l.has(3) ? l.in(3) : ValueId{}); }

// Lowers com.microsoft RotaryEmbedding. Inputs: input, position_ids (B, S) or one offset, cos, sin.
void lower_contrib_rotary(Lowering& l) {
  Builder& b = l.b;
  if (l.attrs.f("scale", 1) != 1 || l.attrs.i("is_packed_batching", 0) != 0) l.unsupported("scale and packed batching");
  ValueId ids = l.in(1);
  const Dims d = l.dims(0);
  const int64_t batch = d[0], time = d[d.size() == 4 ? 2 : 1];
  if (numel(b.dims(ids)) == 1 && batch * time != 1) {
    std::vector<int64_t> at(static_cast<size_t>(time));
    for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<int64_t>(i);
    ids = b.expand(add(b, b.reshape(ids, {1, 1}), b.constant(HostTensor::of<int64_t>({1, time}, at))), {batch, time});
  }
  lower(l, l.in(2), l.in(3), ids);
}

const RegisterOnnx rotary_onnx[] = {RegisterOnnx{{"RotaryEmbedding", lower_rotary, 23, {}}},
                                    RegisterOnnx{{"RotaryEmbedding", lower_contrib_rotary, 1, "com.microsoft"}}};

}  // namespace
}  // namespace amp
