// DeformConv (ONNX 19, 22) with two spatial dimensions. Each tap (element of the kernel) reads x at its position plus a
// learned offset, and is weighted by a mask. The operator is composed of GridSample (linear, zeros outside) at the
// taps' positions and a product with the weight, so offsets and mask have gradients. Position p in elements becomes the
// grid coordinate (2 p + 1) / n - 1.
#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"
#include "ops/spatial.h"

namespace amp {
namespace {

// Lowers DeformConv. Inputs: x (N, C, H, W), weight (M, C / group, kh, kw), offset (N, G * kh * kw * 2, oh, ow) with
// (y, x) pairs for G offset groups, bias (M), mask (N, G * kh * kw, oh, ow).
void lower(Lowering& l) {
  Builder& b = l.b;
  const Dims x = l.dims(0), w = l.dims(1), o = l.dims(2);
  if (x.size() != 4 || w.size() != 4 || o.size() != 4)
    l.unsupported(cat("an image of ", to_string(x), "; two spatial dimensions are"));
  const int64_t group = l.attrs.i("group", 1), parts = l.attrs.i("offset_group", 1);
  const Spatial s = read_spatial(l, {x[2], x[3]}, {w[2], w[3]});
  const int64_t taps = w[2] * w[3], oh = s.out(0, x[2]), ow = s.out(1, x[3]), n = x[0];
  if (group < 1 || parts < 1 || w[1] * group != x[1] || w[0] % group != 0 || x[1] % parts != 0 ||
      o != Dims{n, parts * taps * 2, oh, ow}) {
    fail(Exit::model, "E_SHAPE",
         cat("DeformConv of ", to_string(x), " with weight ", to_string(w), " in ", group, " groups, offset ",
             to_string(o), " in ", parts, " groups; the output is ", oh, " x ", ow));
  }
  const DType t = b.dtype(l.in(0));
  // Compute the position of each tap without its offset, as grid coordinates (taps, oh, ow) of y and of x.
  std::vector<double> place[2];
  for (int64_t k = 0; k < taps; ++k) {
    for (int64_t i = 0; i < oh; ++i) {
      for (int64_t j = 0; j < ow; ++j) {
        const int64_t at[2] = {i * s.strides[0] - s.begin[0] + k / w[3] * s.dilations[0],
                               j * s.strides[1] - s.begin[1] + k % w[3] * s.dilations[1]};
        for (size_t d = 0; d < 2; ++d)
          place[d].push_back(static_cast<double>(2 * at[d] + 1) / static_cast<double>(x[2 + d]) - 1);
      }
    }
  }
  const Dims points{n * parts, taps, oh, ow, 1};
  const ValueId pairs = b.reshape(l.in(2), {n * parts, taps, 2, oh, ow});
  std::vector<ValueId> grid;  // grid coordinates, x before y
  for (const size_t d : {size_t{1}, size_t{0}}) {
    const ValueId moved = scaled(b, slice(b, pairs, 2, static_cast<int64_t>(d), 1), 2 / static_cast<double>(x[2 + d]));
    grid.push_back(
        b.reshape(add(b, moved, b.constant(HostTensor::of<double>({taps, 1, oh, ow}, place[d]).cast(t))), points));
  }
  const ValueId at = b.reshape(concat(b, grid, 4), {n * parts, taps * oh, ow, 2});
  ValueId samples = b.op("GridSample", {b.reshape(l.in(0), {n * parts, x[1] / parts, x[2], x[3]}), at},
                         {{"mode", int64_t{1}}, {"padding", int64_t{0}}, {"align", int64_t{0}}});
  if (l.has(4)) {
    if (l.dims(4) != Dims{n, parts * taps, oh, ow})
      fail(Exit::model, "E_SHAPE", cat("DeformConv: mask ", to_string(l.dims(4))));
    samples = mul(b, b.reshape(samples, {n * parts, x[1] / parts, taps, oh * ow}),
                  b.reshape(l.in(4), {n * parts, 1, taps, oh * ow}));
  }
  const ValueId columns = b.reshape(samples, {n, group, w[1] * taps, oh * ow});
  const ValueId weight = b.reshape(l.in(1), {1, group, w[0] / group, w[1] * taps});
  ValueId y = b.reshape(b.op("MatMul", {weight, columns}), {n, w[0], oh, ow});
  if (l.has(3)) y = add(b, y, b.reshape(l.in(3), {w[0], 1, 1}));
  l.out(0, y);
}
const RegisterOnnx deform_conv_onnx{{"DeformConv", lower, 19, {}}};

}  // namespace
}  // namespace amp
