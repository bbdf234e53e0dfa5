// Helpers for operators that are composed of core operators.
#pragma once

#include "graph/builder.h"

namespace amp {

// Returns n elements of an axis, beginning with index `start`.
inline ValueId slice(Builder& b, ValueId x, int64_t axis, int64_t start, int64_t n, int64_t step = 1) {
  Dims d = b.dims(x);
  std::vector<int64_t> starts(d.size(), 0), steps(d.size(), 1);
  starts[static_cast<size_t>(axis)] = start;
  steps[static_cast<size_t>(axis)] = step;
  d[static_cast<size_t>(axis)] = n;
  return b.op("Slice", {x}, {{"starts", starts}, {"steps", steps}, {"dims", d}});
}
// Returns entry i of axis 0, and removes that axis.
inline ValueId entry(Builder& b, ValueId x, int64_t i) {
  const ValueId s = slice(b, x, 0, i, 1);
  const Dims d = b.dims(s);
  return b.reshape(s, Dims(d.begin() + 1, d.end()));
}
inline ValueId concat(Builder& b, std::vector<ValueId> parts, int64_t axis) {
  return b.op("Concat", std::move(parts), {{"axis", axis}});
}
inline ValueId add(Builder& b, ValueId x, ValueId y) { return b.op("Add", {x, y}); }
inline ValueId sub(Builder& b, ValueId x, ValueId y) { return b.op("Sub", {x, y}); }
inline ValueId mul(Builder& b, ValueId x, ValueId y) { return b.op("Mul", {x, y}); }
inline ValueId div(Builder& b, ValueId x, ValueId y) { return b.op("Div", {x, y}); }
inline ValueId scaled(Builder& b, ValueId x, double k) { return b.op("Mul", {x, b.scalar(k, b.dtype(x))}); }
inline ValueId shifted(Builder& b, ValueId x, double k) { return b.op("Add", {x, b.scalar(k, b.dtype(x))}); }
inline ValueId filled(Builder& b, double v, DType t, Dims dims) { return b.expand(b.scalar(v, t), std::move(dims)); }
// Returns the mean over the given axes, which are kept with extent 1.
inline ValueId mean(Builder& b, ValueId x, const std::vector<int64_t>& axes) {
  double count = 1;
  for (const int64_t a : axes) count *= static_cast<double>(b.dims(x)[static_cast<size_t>(a)]);
  return scaled(b, b.reduce_sum(x, axes, true), 1 / count);
}
// Returns the rows of a table (n, inner) at the given indices, which may have any shape.
inline ValueId lookup(Builder& b, ValueId table, ValueId indices) {
  const Dims t = b.dims(table);
  Dims out = b.dims(indices);
  out.insert(out.end(), t.begin() + 1, t.end());
  const int64_t inner = numel(Dims(t.begin() + 1, t.end()));
  return b.op("GatherRows", {table, indices}, {{"outer", int64_t{1}}, {"n", t.at(0)}, {"inner", inner}, {"dims", out}});
}

}  // namespace amp
