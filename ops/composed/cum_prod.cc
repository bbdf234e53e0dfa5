// CumProd (ONNX 26) and TensorScatter (24), which are composed of slices, products and scatters.
#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/axis_map.h"
#include "ops/compose.h"

namespace amp {
namespace {

// Lowers CumProd in log2(n) rounds. After the round with step s, each entry is the product of the last 2 s entries up
// to and including itself.
void lower_cum_prod(Lowering& l) {
  Builder& b = l.b;
  const int64_t axis = normalize_axis(l.ints(1).at(0), l.rank(0));
  const int64_t n = l.dims(0)[static_cast<size_t>(axis)];
  std::vector<int64_t> backwards;
  for (int64_t i = n; i-- > 0;) backwards.push_back(i);
  const bool reverse = l.attrs.i("reverse", 0) != 0;
  ValueId y = reverse ? map_axis(b, l.in(0), axis, select_map(backwards)) : l.in(0);
  for (int64_t s = 1; s < n; s *= 2) {
    y = concat(b, {slice(b, y, axis, 0, s), mul(b, slice(b, y, axis, s, n - s), slice(b, y, axis, 0, n - s))}, axis);
  }
  if (l.attrs.i("exclusive", 0) != 0 && n > 0) {
    Dims one = l.dims(0);
    one[static_cast<size_t>(axis)] = 1;
    y = concat(b, {filled(b, 1, b.dtype(y), one), slice(b, y, axis, 0, n - 1)}, axis);
  }
  l.out(0, reverse ? map_axis(b, y, axis, select_map(backwards)) : y);
}

// Lowers TensorScatter. It replaces entries of the cache along the axis by the update, beginning at
// write_indices[batch]. In circular mode, positions are modulo the length of the cache.
void lower_tensor_scatter(Lowering& l) {
  Builder& b = l.b;
  const Dims d = l.dims(0), u = l.dims(1);
  const int64_t rank = l.rank(0), axis = normalize_axis(l.attrs.i("axis", -2), rank);
  if (u.size() != d.size() || axis == 0)
    fail(Exit::model, "E_SHAPE", cat("TensorScatter of ", to_string(u), " into ", to_string(d), " along axis ", axis));
  const int64_t n = d[static_cast<size_t>(axis)], k = u[static_cast<size_t>(axis)];
  const std::string mode = l.attrs.s("mode", "linear");
  if (mode != "linear" && mode != "circular") fail(Exit::model, "E_ATTR", cat("TensorScatter: mode '", mode, "'"));
  std::vector<int64_t> iota;
  for (int64_t i = 0; i < k; ++i) iota.push_back(i);
  Dims along(d.size(), 1), batch(d.size(), 1);
  along[static_cast<size_t>(axis)] = k;
  batch[0] = d[0];
  ValueId at = b.constant(HostTensor::of<int64_t>(along, iota));
  if (l.has(2)) at = add(b, at, b.reshape(b.cast(l.in(2), DType::i64), batch));
  if (mode == "circular") {
    const ValueId whole = b.scalar(static_cast<double>(n), DType::i64);
    at = sub(b, at, mul(b, b.op("Div", {at, whole}), whole));
  }
  l.out(0, b.op("ScatterElements", {l.in(0), b.expand(at, u), l.in(1)}, {{"axis", axis}, {"reduction", int64_t{0}}}));
}

const RegisterOnnx cum_prod_onnx[] = {RegisterOnnx{{"CumProd", lower_cum_prod, 26, {}}},
                                      RegisterOnnx{{"TensorScatter", lower_tensor_scatter, 24, {}}}};

}  // namespace
}  // namespace amp
