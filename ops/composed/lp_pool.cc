// LpPool (ONNX 2+) and GlobalLpPool (2+), which sum over windows, and Col2Im (18) and MaxUnpool (9+), which write
// windows to an image. They are composed of convolutions with constant kernels and of scatters.
#include <algorithm>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"
#include "ops/spatial.h"

namespace amp {
namespace {

// Returns s^(1/p). If s is 0, the result is 0 without a gradient, because the root's derivative at 0 is infinite.
ValueId root(Builder& b, ValueId s, int64_t p) {
  if (p == 1) return s;
  const DType t = b.dtype(s);
  const ValueId empty = b.op("Equal", {s, b.scalar(0, t)}), zero = b.scalar(0, t);
  const ValueId safe = b.op("Where", {empty, b.scalar(1, t), s});
  return b.op("Where", {empty, zero, b.op("Pow", {safe, b.scalar(1.0 / static_cast<double>(p), t)})});
}
ValueId powers(Builder& b, ValueId x, int64_t p) {
  const ValueId a = b.op("Abs", {x});
  return p == 1 ? a : p == 2 ? mul(b, x, x) : b.op("Pow", {a, b.scalar(static_cast<double>(p), b.dtype(x))});
}
int64_t order(const Lowering& l) {
  const int64_t p = l.attrs.i("p", 2);
  if (p < 1) fail(Exit::model, "E_ATTR", cat(l.node.op, ": p is ", p));
  return p;
}
void need_spatial(const Lowering& l) {
  if (l.rank(0) < 3) fail(Exit::model, "E_SHAPE", cat(l.node.op, " of ", to_string(l.dims(0)), ": needs (N, C, ...)"));
}

void lower_lp_pool(Lowering& l) {
  Builder& b = l.b;
  need_spatial(l);
  const Dims x = l.dims(0);
  Spatial s = read_spatial(l, Dims(x.begin() + 2, x.end()), {}, AutoPad::undilated);
  const bool ceil = l.attrs.i("ceil_mode", 0) != 0, flat = x.size() == 3;
  Dims plane{x[0] * x[1], 1}, kernel{1, 1}, out{x[0], x[1]};
  for (size_t i = 0; i < s.kernel.size(); ++i) {
    const int64_t o = s.out(i, x[i + 2], ceil);
    s.end[i] = std::max(s.end[i],
                        // A larger end padding adds only zeros to the sums.
                        (o - 1) * s.strides[i] + s.reach(i) - x[i + 2] - s.begin[i]);
    plane.push_back(x[i + 2]);
    kernel.push_back(s.kernel[i]);
    out.push_back(o);
  }
  if (flat) s.push_front_unit();
  Attrs a = s.attrs();
  a.set("group", int64_t{1});
  const int64_t p = order(l);
  const ValueId ones = filled(b, 1, b.dtype(l.in(0)), kernel);
  const ValueId sum = b.op("Conv", {with_height(b, b.reshape(powers(b, l.in(0), p), plane)), with_height(b, ones)}, a);
  l.out(0, b.reshape(root(b, sum, p), out));
}

void lower_global_lp_pool(Lowering& l) {
  need_spatial(l);
  std::vector<int64_t> axes;
  for (int64_t i = 2; i < l.rank(0); ++i) axes.push_back(i);
  const int64_t p = order(l);
  l.out(0, root(l.b, l.b.reduce_sum(powers(l.b, l.in(0), p), axes, true), p));
}

// Lowers Col2Im of (N, C * prod(block), L). Each column is a block that is added to the image at the block's
// position. This is the gradient to the input of a convolution whose kernels each contain a single 1.
void lower_col2im(Lowering& l) {
  Builder& b = l.b;
  const Dims x = l.dims(0), image = l.ints(1), block = l.ints(2);
  const size_t r = image.size();
  const int64_t taps = numel(block);
  if (x.size() != 3 || block.size() != r || taps == 0 || x[1] % taps != 0)
    fail(Exit::model, "E_SHAPE", cat("Col2Im of ", to_string(x), " with blocks ", to_string(block)));
  if (r > 3) l.unsupported(cat(r, " spatial dimensions"));
  const bool flat = r == 1;
  Spatial s = read_spatial(l, image, block);
  const int64_t channels = x[1] / taps;
  Dims dy{x[0], x[1]}, w{x[1], 1}, out{x[0], channels};
  for (size_t i = 0; i < r; ++i) {
    dy.push_back(s.out(i, image[i]));
    w.push_back(block[i]);
    out.push_back(image[i]);
  }
  if (numel(Dims(dy.begin() + 2, dy.end())) != x[2])
    fail(Exit::model, "E_SHAPE", cat("Col2Im: ", x[2], " blocks for an image of ", to_string(image)));
  HostTensor pick = HostTensor::zeros(DType::f64, w);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < taps; ++t) pick.as_mutable<double>()[(c * taps + t) * taps + t] = 1;
  }
  const Dims result = out;
  if (flat) {
    s.push_front_unit();
    out.insert(out.begin() + 2, 1);
  }
  Attrs a = s.attrs();
  a.set("group", channels);
  a.set("dims", out);
  const ValueId weight = with_height(b, b.constant(pick.cast(b.dtype(l.in(0)))));
  l.out(0, b.reshape(b.op("ConvGradX", {with_height(b, b.reshape(l.in(0), dy)), weight}, a), result));
}

// Lowers MaxUnpool: each value is written to the flattened output at the position that its index gives.
void lower_max_unpool(Lowering& l) {
  Builder& b = l.b;
  need_spatial(l);
  const Dims x = l.dims(0);
  Dims natural{x[0], x[1]};
  const Spatial s = read_spatial(l, Dims(x.begin() + 2, x.end()), {});
  for (size_t i = 0; i < s.kernel.size(); ++i)
    natural.push_back((x[i + 2] - 1) * s.strides[i] + s.kernel[i] - s.begin[i] - s.end[i]);
  const Dims out = l.has(2) ? l.ints(2) : natural;
  if (out.size() != x.size() || l.dims(1) != x)
    fail(Exit::model, "E_SHAPE", cat("MaxUnpool of ", to_string(x), " to ", to_string(out)));
  ValueId at = b.reshape(b.cast(l.in(1), DType::i64), {numel(x)});
  if (out != natural && x.size() >= 3) {  // converts indices into an image of dims `natural` to indices into `out`
    const auto strides = row_major_strides(natural), wide = row_major_strides(out);
    ValueId moved;
    for (size_t d = 0; d < out.size(); ++d) {
      const auto whole = [&](int64_t v) { return b.scalar(static_cast<double>(v), DType::i64); };
      ValueId digit = b.op("Div", {at, whole(strides[d])});
      digit = sub(b, digit, mul(b, b.op("Div", {digit, whole(natural[d])}), whole(natural[d])));
      const ValueId step = mul(b, digit, whole(wide[d]));
      moved = moved ? add(b, moved, step) : step;
    }
    at = moved;
  }
  const ValueId zeros = filled(b, 0, b.dtype(l.in(0)), {numel(out)});
  const ValueId y =
      b.op("ScatterNDRows", {zeros, at, b.reshape(l.in(0), {numel(x)})}, {{"inner", int64_t{1}}, {"n", numel(out)}});
  l.out(0, b.reshape(y, out));
}

const RegisterOnnx lp_pool_onnx[] = {
    RegisterOnnx{{"LpPool", lower_lp_pool, 2, {}}}, RegisterOnnx{{"GlobalLpPool", lower_global_lp_pool, 2, {}}},
    RegisterOnnx{{"Col2Im", lower_col2im, 18, {}}}, RegisterOnnx{{"MaxUnpool", lower_max_unpool, 9, {}}}};

}  // namespace
}  // namespace amp
