// Resize (ONNX 10, 11, 13, 18, 19) and Upsample (7, 9): nearest, linear and cubic, each coordinate_transformation_mode
// and nearest_mode, scales or sizes, roi, antialias. Interpolation is separable: one linear map per resized axis
// (ops/axis_map.h), which provides the gradient.
//
// Coordinates follow onnxruntime's reading of the ONNX specification, which differs from onnx.reference. Lengths are
// the integral extents of tensors, also for fractional scales (as PyTorch's align_corners). In pytorch_half_pixel, an
// output of one element reads position 0. An axis with scale 1 is copied, as is a tensor whose size does not change.
// Comparisons (lengths, the nearest pixel, inside or outside) are computed in fp32. Mode nearest of opset 10 rounds up
// when an axis shrinks.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/limits.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/axis_map.h"

namespace amp {
namespace {

// Settings that all axes share. `nearest` is ONNX's nearest_mode; in opset 10 it may be "outwards".
struct Rule {
  std::string mode = "nearest", coordinates = "half_pixel", nearest = "round_prefer_floor";
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

struct Axis {
  int64_t axis = 0, in = 1, out = 1;
  double scale = 1, roi_start = 0, roi_end = 1;
};

// Returns the position in the input that output position x corresponds to.
template <class T>
T original(const Rule& r, const Axis& a, T x) {
  const T in = static_cast<T>(a.in), out = static_cast<T>(a.out), scale = static_cast<T>(a.scale), half = T(0.5);
  if (r.coordinates == "align_corners") return a.out == 1 ? T(0) : x * (in - 1) / (out - 1);
  if (r.coordinates == "asymmetric") return x / scale;
  if (r.coordinates == "tf_crop_and_resize") {
    const T start = static_cast<T>(a.roi_start), end = static_cast<T>(a.roi_end);
    return a.out == 1 ? half * (start + end) * (in - 1) : start * (in - 1) + x * (end - start) * (in - 1) / (out - 1);
  }
  if (r.coordinates == "pytorch_half_pixel" && a.out == 1) return T(0);
  if (r.coordinates == "tf_half_pixel_for_nn") return (x + half) / scale;
  const T offset = r.coordinates == "half_pixel_symmetric" ? in / 2 * (1 - out / (scale * in)) : T(0);
  return offset + (x + half) / scale - half;
}

double cubic(double a, double x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

struct Taps {
  int64_t first = 0;  // offset of the first weighted position from the integer position below
  std::vector<double> weight;
};
// Returns the weights of the input positions near a position. ratio: the distance from the integer position below, in
// (0, 1]; it is 1 at an integer position.
Taps taps(const Rule& r, const Axis& a, double ratio) {
  if (r.mode == "nearest") {
    const bool up = ratio == 1 || r.nearest == "ceil" || (r.nearest == "outwards" && a.scale < 1) ||
                    (r.nearest == "round_prefer_floor" && ratio > 0.5) ||
                    (r.nearest == "round_prefer_ceil" && ratio >= 0.5);
    return {0, {up ? 0.0 : 1.0, up ? 1.0 : 0.0}};
  }
  const double reach = r.mode == "linear" ? 1 : 2;
  const double scale = r.antialias ? std::min(a.scale, 1.0) : 1;  // a wider filter when shrinking
  Taps t;
  t.first = static_cast<int64_t>(std::floor(-reach / scale)) + 1;
  double sum = 0;
  for (int64_t i = t.first; i < 2 - t.first; ++i) {
    const double d = scale * (static_cast<double>(i) - ratio);
    t.weight.push_back(r.mode == "linear" ? std::max(0.0, 1 - std::abs(d)) : cubic(r.cubic_a, d));
    sum += t.weight.back();
  }
  for (double& w : t.weight) w /= sum;
  return t;
}

// Returns the AxisMap of one axis, from input to output positions. For each output position, appends to `inside`
// whether its position in the input is inside of the input.
AxisMap axis_map(const Rule& r, const Axis& a, std::vector<bool>& inside) {
  require_constant(cat("a resize of ", a.in, " to ", a.out), 16.0 * static_cast<double>(a.out));
  AxisMap m;
  const bool copied = a.in == a.out && (r.antialias || static_cast<float>(a.scale) == 1);
  for (int64_t j = 0; j < a.out; ++j) {
    if (copied) {
      inside.push_back(true);
      m.add(j, 1);
      m.end_row();
      continue;
    }
    const float coarse = original(r, a, static_cast<float>(j));
    const double x = r.mode == "nearest" ? coarse : original(r, a, static_cast<double>(j));
    inside.push_back(r.coordinates != "tf_crop_and_resize" || (coarse >= 0 && coarse <= static_cast<float>(a.in - 1)));
    if (inside.back()) {
      const double below = x == std::floor(x) ? x - 1 : std::floor(x);
      Taps t = taps(r, a, x - below);
      double sum = 0;
      for (size_t i = 0; i < t.weight.size(); ++i) {
        const int64_t at = static_cast<int64_t>(below) + t.first + static_cast<int64_t>(i);
        if (r.exclude_outside && (at < 0 || at >= a.in)) t.weight[i] = 0;
        sum += t.weight[i];
      }
      for (size_t i = 0; i < t.weight.size(); ++i) {
        const int64_t at = static_cast<int64_t>(below) + t.first + static_cast<int64_t>(i);
        if (t.weight[i] != 0)
          m.add(std::clamp<int64_t>(at, 0, a.in - 1), r.exclude_outside ? t.weight[i] / sum : t.weight[i]);
      }
    }
    m.end_row();
  }
  return m;
}

// Applies the AxisMap of each axis in turn. Then sets outputs whose position is outside of the input to the
// extrapolation value.
ValueId resize(Lowering& l, const Rule& r, const std::vector<Axis>& axes) {
  Builder& b = l.b;
  ValueId x = l.in(0);
  if (!is_float(b.dtype(x)) && r.mode != "nearest") l.unsupported("interpolation of integers");
  const auto kept = [](const Axis& a) { return a.in == a.out; };
  if (std::all_of(axes.begin(), axes.end(), kept)) return x;
  std::vector<std::pair<size_t, std::vector<bool>>> masks;
  for (size_t i = axes.size(); i-- > 0;) {
    std::vector<bool> inside;
    x = map_axis(b, x, axes[i].axis, axis_map(r, axes[i], inside));
    if (std::find(inside.begin(), inside.end(), false) != inside.end()) masks.emplace_back(i, inside);
  }
  if (r.extrapolation == 0) return x;
  for (const auto& [i, inside] : masks) {
    Dims d(b.dims(x).size(), 1);
    d[static_cast<size_t>(axes[i].axis)] = axes[i].out;
    HostTensor mask = HostTensor::empty(DType::boolean, d);
    for (size_t j = 0; j < inside.size(); ++j) mask.as_mutable<bool>()[j] = inside[j];
    x = b.op("Where", {b.constant(mask), x, b.scalar(r.extrapolation, b.dtype(x))});
  }
  return x;
}

std::vector<Axis> scaled_axes(const Lowering& l, const std::vector<int64_t>& which, const std::vector<double>& scales) {
  if (scales.size() != which.size())
    fail(Exit::model, "E_SHAPE", cat(l.node.op, " has ", scales.size(), " scales for ", which.size(), " axes"));
  std::vector<Axis> axes;
  for (size_t i = 0; i < which.size(); ++i) {
    Axis a;
    a.axis = which[i];
    a.in = l.dims(0)[static_cast<size_t>(which[i])];
    a.scale = scales[i];
    if (!(a.scale > 0)) fail(Exit::model, "E_ATTR", cat(l.node.op, ": scale ", a.scale));
    require_constant(cat(l.node.op, " by ", a.scale), 16 * static_cast<double>(a.in) * a.scale);
    a.out = static_cast<int64_t>(static_cast<float>(a.in) * static_cast<float>(a.scale));
    axes.push_back(a);
  }
  return axes;
}

std::vector<Axis> sized_axes(const Lowering& l, const std::vector<int64_t>& which, const std::vector<int64_t>& sizes) {
  if (sizes.size() != which.size())
    fail(Exit::model, "E_SHAPE", cat(l.node.op, " has ", sizes.size(), " sizes for ", which.size(), " axes"));
  const std::string policy = l.attrs.s("keep_aspect_ratio_policy", "stretch");
  std::vector<Axis> axes;
  double common = 0;
  for (size_t i = 0; i < which.size(); ++i) {
    Axis a;
    a.axis = which[i];
    a.in = l.dims(0)[static_cast<size_t>(which[i])];
    a.out = sizes[i];
    if (a.in == 0 || a.out < 0)
      fail(Exit::model, "E_SHAPE", cat(l.node.op, " of ", to_string(l.dims(0)), " to ", to_string(sizes)));
    a.scale = static_cast<double>(a.out) / static_cast<double>(a.in);
    common = i == 0 ? a.scale : policy == "not_larger" ? std::min(common, a.scale) : std::max(common, a.scale);
    axes.push_back(a);
  }
  if (policy == "stretch") return axes;
  if (policy != "not_larger" && policy != "not_smaller") l.unsupported("keep_aspect_ratio_policy '" + policy + "'");
  for (Axis& a : axes) {
    a.scale = common;
    a.out = static_cast<int64_t>(std::round(static_cast<float>(common) * static_cast<float>(a.in)));
  }
  return axes;
}

std::vector<int64_t> all_axes(const Lowering& l) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < l.rank(0); ++i) axes.push_back(i);
  return axes;
}

Rule simple_rule(const Lowering& l) {  // rule of Upsample and of Resize in opset 10
  Rule r;
  r.mode = l.attrs.s("mode", "nearest");
  r.coordinates = "asymmetric";
  r.nearest = l.node.op == "Resize" ? "outwards" : "floor";
  if (r.mode == "bilinear") r.mode = "linear";
  if (r.mode != "nearest" && r.mode != "linear") l.unsupported("mode '" + r.mode + "'");
  return r;
}

void lower_upsample(Lowering& l) {
  const std::vector<double> scales =
      l.version() < 9 && l.node.op == "Upsample" ? l.attrs.floats("scales") : l.constant(1).to_doubles();
  l.out(0, resize(l, simple_rule(l), scaled_axes(l, all_axes(l), scales)));
}

void lower_resize(Lowering& l) {
  Rule r;
  r.mode = l.attrs.s("mode", r.mode);
  r.coordinates = l.attrs.s("coordinate_transformation_mode", r.coordinates);
  r.nearest = l.attrs.s("nearest_mode", r.nearest);
  r.cubic_a = l.attrs.f("cubic_coeff_a", r.cubic_a);
  r.extrapolation = l.attrs.f("extrapolation_value", 0);
  r.exclude_outside = l.attrs.i("exclude_outside", 0) != 0;
  r.antialias = l.attrs.i("antialias", 0) != 0;
  const auto known = [](const std::string& s, std::initializer_list<const char*> names) {
    return std::find(names.begin(), names.end(), s) != names.end();
  };
  if (!known(r.mode, {"nearest", "linear", "cubic"})) l.unsupported("mode '" + r.mode + "'");
  if (!known(r.coordinates, {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
                             "tf_crop_and_resize", "half_pixel_symmetric"})) {
    l.unsupported("coordinate_transformation_mode '" + r.coordinates + "'");
  }
  if (!known(r.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}))
    l.unsupported("nearest_mode '" + r.nearest + "'");
  std::vector<int64_t> which = l.attrs.ints("axes", all_axes(l));
  for (int64_t& a : which) a = normalize_axis(a, l.rank(0));
  const auto given = [&](size_t i) { return l.has(i) && numel(l.dims(i)) > 0; };
  if (!given(2) && !given(3)) fail(Exit::model, "E_ATTR", "Resize has neither scales nor sizes");
  std::vector<Axis> axes =
      given(2) ? scaled_axes(l, which, l.constant(2).to_doubles()) : sized_axes(l, which, l.ints(3));
  if (r.coordinates == "tf_crop_and_resize") {
    const std::vector<double> roi = l.constant(1).to_doubles();
    if (roi.size() != 2 * axes.size())
      fail(Exit::model, "E_SHAPE", cat("Resize has ", roi.size(), " roi numbers for ", axes.size(), " axes"));
    for (size_t i = 0; i < axes.size(); ++i) {
      axes[i].roi_start = roi[i];
      axes[i].roi_end = roi[i + axes.size()];
    }
  }
  l.out(0, resize(l, r, axes));
}

const RegisterOnnx resize_onnx[] = {RegisterOnnx{{"Upsample", lower_upsample, 7, {}}},
                                    RegisterOnnx{{"Resize", lower_upsample, 10, {}}},
                                    RegisterOnnx{{"Resize", lower_resize, 11, {}}}};

}  // namespace
}  // namespace amp
