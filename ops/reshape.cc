// Reshape (ONNX 5+), Flatten, Squeeze and Unsqueeze (1+). They are views of their input with other dims.
#include <algorithm>

#include "graph/fixed_rows.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

void infer_reshape(InferCtx& c) {
  const Dims dims = c.attrs.ints("dims");
  if (numel(dims) != numel(c.in(0).dims)) {
    fail(Exit::model, "E_SHAPE", cat("cannot reshape ", to_string(c.in(0).dims), " to ", to_string(dims)));
  }
  c.out(c.in(0).dtype, dims);
}

ValueId simplify_reshape(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const Dims dims = a.ints("dims");
  if (b.dims(in[0]) == dims) return in[0];
  const Value& x = b.value(in[0]);
  if (x.kind == ValueKind::constant && numel(dims) == x.constant.numel()) return b.constant(x.constant.reshaped(dims));
  if (x.producer && b.graph().node(x.producer).op->name == "Reshape")
    return b.reshape(b.graph().node(x.producer).in[0], dims);
  return {};
}

void grad_reshape(GradBuilder& g) { g.add_grad(0, g.b.reshape(g.dy(0), g.dims(g.in(0)))); }

OpDef reshape_def() {
  OpDef d;
  d.name = "Reshape";
  d.infer = infer_reshape;
  d.gradient = grad_reshape;
  d.simplify = simplify_reshape;
  d.view = true;
  d.moves = true;
  return d;
}
Kernel copy_kernel(const KernelArgs& a) {  // only the naive interpreter calls it; in Programs the output is a view
  const Tensor x = a.in[0], y = a.out[0];
  return [x, y] { std::memcpy(y.data, x.data, static_cast<size_t>(x.bytes())); };
}
const RegisterOp reshape_op{reshape_def()};
const RegisterKernel reshape_cpu{DeviceKind::cpu, "Reshape", copy_kernel};

void lower_reshape(Lowering& l) {
  const Dims& in = l.dims(0);
  Dims out = l.ints(1);
  const bool allow_zero = l.attrs.i("allowzero", 0) != 0;
  if (l.attrs.i(kFreeRows, 0) != 0 && !out.empty()) out[0] = std::count(out.begin(), out.end(), -1) ? in.at(0) : -1;
  int64_t known = 1, unknown = -1;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == 0 && !allow_zero) {
      if (i >= in.size())
        fail(Exit::model, "E_SHAPE", cat("Reshape copies dimension ", i, " of a tensor of rank ", in.size()));
      out[i] = in[i];
    }
    if (out[i] == -1) {
      if (unknown >= 0) fail(Exit::model, "E_SHAPE", "Reshape has two dimensions of -1");
      unknown = static_cast<int64_t>(i);
    } else {
      known = checked_mul(known, out[i]);
    }
  }
  if (unknown >= 0) out[static_cast<size_t>(unknown)] = known == 0 ? 0 : numel(in) / known;
  l.out(0, l.b.reshape(l.in(0), out));
}

void lower_flatten(Lowering& l) {
  const Dims& in = l.dims(0);
  int64_t axis = l.attrs.i("axis", 1);
  if (axis < 0) axis += l.rank(0);
  if (axis < 0 || axis > l.rank(0))
    fail(Exit::model, "E_ATTR", cat("Flatten: axis ", axis, " of a tensor of rank ", l.rank(0)));
  int64_t rows = 1, cols = 1;
  for (int64_t i = 0; i < l.rank(0); ++i) (i < axis ? rows : cols) *= in[static_cast<size_t>(i)];
  l.out(0, l.b.reshape(l.in(0), {rows, cols}));
}

std::vector<int64_t> sorted_axes(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& a : axes) a = normalize_axis(a, rank);
  std::sort(axes.begin(), axes.end());
  return axes;
}

void lower_squeeze(Lowering& l) {
  const Dims& in = l.dims(0);
  std::vector<int64_t> axes;
  if (l.has_ints(1, "axes")) {
    axes = sorted_axes(l.ints_or_attr(1, "axes"), l.rank(0));
  } else {
    for (int64_t i = 0; i < l.rank(0); ++i) {
      if (in[static_cast<size_t>(i)] == 1) axes.push_back(i);
    }
  }
  Dims out;
  for (int64_t i = 0; i < l.rank(0); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), i)) out.push_back(in[static_cast<size_t>(i)]);
  }
  l.out(0, l.b.reshape(l.in(0), out));
}

void lower_unsqueeze(Lowering& l) {
  const std::vector<int64_t> raw = l.ints_or_attr(1, "axes");
  const std::vector<int64_t> axes = sorted_axes(raw, l.rank(0) + static_cast<int64_t>(raw.size()));
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    fail(Exit::model, "E_ATTR", cat("Unsqueeze: an axis occurs twice in ", to_string(raw)));
  Dims out = l.dims(0);
  for (const int64_t a : axes) out.insert(out.begin() + a, 1);
  l.out(0, l.b.reshape(l.in(0), out));
}

const RegisterOnnx onnx[] = {
    RegisterOnnx{{"Reshape", lower_reshape, 5, {}}}, RegisterOnnx{{"Flatten", lower_flatten, 1, {}}},
    RegisterOnnx{{"Squeeze", lower_squeeze, 1, {}}}, RegisterOnnx{{"Unsqueeze", lower_unsqueeze, 1, {}}}};

}  // namespace
}  // namespace amp
