// Pad: ONNX 2 (pads and value are attributes), 11 (inputs), 18 (axes), 19 (wrap); CenterCropPad 18. Constant padding
// uses SliceGrad, which pads with zeros; a mask then selects constants other than 0. The modes reflect, edge and wrap
// are linear maps along each axis (ops/axis_map.h).
#include <algorithm>

#include "base/error.h"
#include "graph/limits.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/axis_map.h"

namespace amp {
namespace {

constexpr int64_t kMost = int64_t{1} << 48;  // largest pad, so that sums of pads and extents do not overflow

struct Pads {
  std::vector<int64_t> begin, end;
};

Pads read_pads(const Lowering& l) {
  const size_t rank = l.dims(0).size();
  const std::vector<int64_t> flat = l.version() < 11 ? l.attrs.ints("pads") : l.ints(1);
  std::vector<int64_t> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = static_cast<int64_t>(i);
  if (l.version() >= 18 && l.has(3)) axes = l.ints(3);
  if (flat.size() != 2 * axes.size()) {
    fail(Exit::model, "E_SHAPE", cat("Pad has ", flat.size(), " pads for ", axes.size(), " axes: two each are needed"));
  }
  for (const int64_t n : flat) {
    if (n > kMost || n < -kMost) fail(Exit::model, "E_ATTR", cat("Pad by ", n));
  }
  Pads p{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t d = static_cast<size_t>(normalize_axis(axes[i], l.rank(0)));
    p.begin[d] = flat[i];
    p.end[d] = flat[i + axes.size()];
  }
  return p;
}

// Crops x where pads are negative, and sets these pads in p to 0.
ValueId crop(Builder& b, ValueId x, Pads& p) {
  Dims dims = b.dims(x);
  std::vector<int64_t> starts(dims.size(), 0);
  for (size_t d = 0; d < dims.size(); ++d) {
    starts[d] = std::max<int64_t>(0, -p.begin[d]);
    dims[d] -= starts[d] + std::max<int64_t>(0, -p.end[d]);
    if (dims[d] < 0) fail(Exit::model, "E_SHAPE", cat("Pad removes more than axis ", d, " has"));
    p.begin[d] = std::max<int64_t>(0, p.begin[d]);
    p.end[d] = std::max<int64_t>(0, p.end[d]);
  }
  return b.op("Slice", {x}, {{"starts", starts}, {"steps", std::vector<int64_t>(dims.size(), 1)}, {"dims", dims}});
}

ValueId pad_constant(Builder& b, ValueId x, const Pads& p, ValueId value) {
  const Dims in = b.dims(x);
  const std::vector<int64_t> steps(in.size(), 1);
  // inside, mask_dims: extent 1 on axes without padding.
  Dims out = in, inside(in.size(), 1), mask_dims(in.size(), 1);
  for (size_t d = 0; d < in.size(); ++d) {
    out[d] += p.begin[d] + p.end[d];
    if (out[d] != in[d]) {
      inside[d] = in[d];
      mask_dims[d] = out[d];
    }
  }
  if (out == in) return x;
  const ValueId padded = b.op("SliceGrad", {x}, {{"starts", p.begin}, {"steps", steps}, {"dims", in}, {"full", out}});
  if (b.is_constant(value, 0)) return padded;
  const ValueId ones = b.expand(b.scalar(1, DType::boolean), inside);
  const ValueId mask =
      b.op("SliceGrad", {ones}, {{"starts", p.begin}, {"steps", steps}, {"dims", inside}, {"full", mask_dims}});
  return b.op("Where", {mask, padded, value});
}

// Returns for each output position along an axis of extent n the input position from which it is copied.
std::vector<int64_t> sources(const std::string& mode, int64_t begin, int64_t n, int64_t end) {
  std::vector<int64_t> s;
  const auto wrap = [](int64_t i, int64_t m) { return (i % m + m) % m; };
  require_constant(cat("Pad mode ", mode, " by ", begin, " and ", end), 8.0 * static_cast<double>(begin + n + end));
  if (n == 0 && begin + end > 0) fail(Exit::model, "E_SHAPE", cat("Pad mode ", mode, " of an empty axis"));
  for (int64_t i = -begin; i < n + end; ++i) {
    if (mode == "edge") {
      s.push_back(std::clamp<int64_t>(i, 0, n - 1));
    } else if (mode == "wrap") {
      s.push_back(wrap(i, n));
    } else {  // reflect: the border itself is not repeated
      const int64_t period = std::max<int64_t>(1, 2 * (n - 1)), at = wrap(i, period);
      s.push_back(at < n ? at : period - at);
    }
  }
  return s;
}

void lower_pad(Lowering& l) {
  Builder& b = l.b;
  Pads p = read_pads(l);
  ValueId x = crop(b, l.in(0), p);
  const std::string mode = l.attrs.s("mode", "constant");
  if (mode == "constant") {
    const DType t = b.dtype(x);
    ValueId value = b.scalar(l.version() < 11 ? l.attrs.f("value", 0) : 0, t);
    if (l.version() >= 11 && l.has(2)) value = b.reshape(b.cast(l.in(2), t), {});
    return l.out(0, pad_constant(b, x, p, value));
  }
  if (mode != "reflect" && mode != "edge" && mode != "wrap") l.unsupported("mode '" + mode + "'");
  for (size_t d = 0; d < p.begin.size(); ++d) {
    const int64_t n = b.dims(x)[d];
    x = map_axis(b, x, static_cast<int64_t>(d), select_map(sources(mode, p.begin[d], n, p.end[d])));
  }
  l.out(0, x);
}

// Lowers CenterCropPad: an axis longer than its given extent is cropped, a shorter axis is padded with zeros; both
// equally on both sides.
void lower_center_crop_pad(Lowering& l) {
  const Dims in = l.dims(0);
  const std::vector<int64_t> shape = l.ints(1);
  std::vector<int64_t> axes = l.attrs.ints("axes");
  for (size_t i = 0; axes.size() < shape.size() && !l.attrs.has("axes"); ++i) axes.push_back(static_cast<int64_t>(i));
  Pads p{std::vector<int64_t>(in.size(), 0), std::vector<int64_t>(in.size(), 0)};
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t d = static_cast<size_t>(normalize_axis(axes[i], l.rank(0)));
    const int64_t more = shape.at(i) - in[d], half = (more < 0 ? -more : more) / 2;
    p.begin[d] = more < 0 ? -half : half;
    p.end[d] = more - p.begin[d];
  }
  const ValueId x = crop(l.b, l.in(0), p);
  l.out(0, pad_constant(l.b, x, p, l.b.scalar(0, l.b.dtype(x))));
}

const RegisterOnnx pad_onnx[] = {RegisterOnnx{{"Pad", lower_pad, 2, {}}},
                                 RegisterOnnx{{"CenterCropPad", lower_center_crop_pad, 18, {}}}};

}  // namespace
}  // namespace amp
