// Hardmax (ONNX 1+), composed of ArgMax and a comparison.
#include <numeric>

#include "graph/lower.h"
#include "graph/op.h"
#include "ops/axis_map.h"

namespace amp {
namespace {

// Lowers Hardmax: 1 at the first largest element, else 0. Before opset 13 the dims from the axis on are merged into
// one.
void lower_hardmax(Lowering& l) {
  Builder& b = l.b;
  const Dims dims = l.dims(0);
  int64_t axis = normalize_axis(l.attrs.i("axis", l.version() < 13 ? 1 : -1), l.rank(0));
  ValueId x = l.in(0);
  if (l.version() < 13) {
    int64_t cols = 1;
    for (size_t d = static_cast<size_t>(axis); d < dims.size(); ++d) cols *= dims[d];
    x = b.reshape(x, {cols > 0 ? numel(dims) / cols : 0, cols});
    axis = 1;
  }
  Dims line(b.dims(x).size(), 1);
  const int64_t n = line[static_cast<size_t>(axis)] = b.dims(x)[static_cast<size_t>(axis)];
  std::vector<int64_t> positions(static_cast<size_t>(n));
  std::iota(positions.begin(), positions.end(), int64_t{0});
  const ValueId top =
      b.op("ArgMax", {x}, {{"axis", axis}, {"keepdims", int64_t{1}}, {"select_last_index", int64_t{0}}});
  const ValueId hit = b.op("Equal", {top, b.constant(HostTensor::of<int64_t>(line, positions))});
  l.out(0, b.reshape(b.cast(hit, b.dtype(x)), dims));
}

const RegisterOnnx hardmax_onnx{{"Hardmax", lower_hardmax, 1, {}}};

}  // namespace
}  // namespace amp
