// ConvTranspose (ONNX 1+). It is lowered to y = ConvGradX(x, w), the gradient of a convolution to its input, where x
// takes the place of the output's gradient.
#include <algorithm>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/spatial.h"

namespace amp {
namespace {

struct Extent {
  int64_t out, begin;
};

// Returns the output extent along axis i and the padding at its beginning, for an input extent of n.
Extent extent(const Lowering& l, const Spatial& s, size_t i, int64_t n, int64_t output_padding) {
  const std::string mode = l.attrs.s("auto_pad", "NOTSET");
  const auto shape = l.attrs.ints("output_shape");
  const int64_t full = s.strides[i] * (n - 1) + output_padding + s.reach(i);
  if (shape.empty() && mode != "SAME_UPPER" && mode != "SAME_LOWER") return {full - s.begin[i] - s.end[i], s.begin[i]};
  // output_shape may have entries for batch and channels, too.
  const int64_t want = shape.empty() ? n * s.strides[i] : shape.at(shape.size() - s.kernel.size() + i);
  const int64_t total = std::max<int64_t>(0, full - want);
  return {want, mode == "SAME_UPPER" ? total / 2 : total - total / 2};
}

void lower_conv_transpose(Lowering& l) {
  Builder& b = l.b;
  const Dims x = l.dims(0), w = l.dims(1);
  const int64_t group = l.attrs.i("group", 1);
  if (x.size() < 3 || w.size() != x.size() || group < 1 || x[1] != w[0] || w[0] % group != 0) {
    fail(Exit::model, "E_ATTR",
         cat("ConvTranspose of ", to_string(x), " with weight ", to_string(w), " in ", group, " groups"));
  }
  const bool flat = x.size() == 3;
  Spatial s = read_spatial(l, Dims(x.begin() + 2, x.end()), Dims(w.begin() + 2, w.end()), AutoPad::left);
  const size_t r = s.kernel.size();
  const auto output_padding = l.attrs.ints("output_padding", Dims(r, 0));
  const auto shape = l.attrs.ints("output_shape");
  if (output_padding.size() != r || (!shape.empty() && shape.size() < r)) {
    fail(Exit::model, "E_ATTR", cat("ConvTranspose: output_padding or output_shape should have ", r, " numbers"));
  }

  // Some output positions are reached by no element of the kernel (if the output padding is at least the stride). They
  // are left out here and appended as zeros below.
  Dims out{x[0], w[1] * group}, tail(r, 0);
  for (size_t i = 0; i < r; ++i) {
    const int64_t n = x[i + 2], reached = s.strides[i] * (n - 1) + s.reach(i);
    const Extent e = extent(l, s, i, n, output_padding[i]);
    if (e.out < 1 || e.begin >= reached)
      fail(Exit::model, "E_SHAPE", cat("ConvTranspose: output extent ", e.out, ", padding ", e.begin));
    s.begin[i] = e.begin;
    s.end[i] = std::max<int64_t>(0, reached - e.begin - e.out);
    const int64_t core = reached - e.begin - s.end[i];
    tail[i] = e.out - core;
    out.push_back(core);
  }
  if (flat) {
    s.push_front_unit();
    out.insert(out.begin() + 2, 1);
    tail.insert(tail.begin(), 0);
  }
  Attrs a = s.attrs();
  a.set("group", group);
  a.set("dims", out);
  ValueId y = b.op("ConvGradX", {with_height(b, l.in(0)), with_height(b, l.in(1))}, std::move(a));
  if (std::any_of(tail.begin(), tail.end(), [](int64_t n) { return n != 0; })) {
    Dims full = b.dims(y);
    for (size_t i = 0; i < tail.size(); ++i) full[i + 2] += tail[i];
    y = b.op("SliceGrad", {y}, {{"starts", Dims(full.size(), 0)}, {"steps", Dims(full.size(), 1)}, {"full", full}});
  }
  if (l.has(2)) {
    Dims bias(b.dims(y).size(), 1);
    bias[1] = b.dims(y)[1];
    y = b.op("Add", {y, b.reshape(l.in(2), bias)});
  }
  l.out(0, without_height(b, y, flat));
}
const RegisterOnnx conv_transpose_onnx{{"ConvTranspose", lower_conv_transpose, 1, {}}};

}  // namespace
}  // namespace amp
