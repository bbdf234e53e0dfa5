// MaxPool (ONNX 1+), AveragePool (1+), GlobalAveragePool, GlobalMaxPool (1+). Core operators, 2-d and 3-d. In addition
// to the window (backend/sliding_window.h) the attribute dims holds the output's dims:
//
//   MaxPool(x) -> y, tap       tap: the kernel element that each output took (row-major). It is uint8, or int32 for
//                              kernels of more than 256 elements. NaN passes through.
//   MaxPoolGrad(dy, tap) -> dx
//   MaxPoolIndex(tap) {full} -> int64 positions in the flattened input, of dims full: ONNX's Indices
//   AveragePool(x) -> y        {count_include_pad}: padding counts in the divisor; positions that only ceil_mode adds,
//                              beyond the padding, do not
//   AveragePoolGrad(dy) -> dx
#include "backend/cpu/pool/pool.h"

#include "backend/sliding_window.h"
#include "ops/compose.h"
#include "ops/elementwise_op.h"
#include "ops/spatial.h"

namespace amp {
namespace {

void infer_pool(InferCtx& c) { c.out(c.in(0).dtype, c.attrs.ints("dims")); }
void infer_max_pool(InferCtx& c) {
  infer_pool(c);
  c.out(numel(c.attrs.ints("kernel")) <= 256 ? DType::u8 : DType::i32, c.attrs.ints("dims"));
}
void infer_max_pool_index(InferCtx& c) { c.out(DType::i64, c.in(0).dims); }

Attrs to_dims(const Attrs& a, const Dims& dims) {
  Attrs b = a;
  b.set("dims", dims);
  return b;
}
void grad_max_pool(GradBuilder& g) {
  g.add_grad(0, g.op("MaxPoolGrad", {g.dy(0), g.out(1)}, to_dims(g.attrs(), g.dims(g.in(0)))));
}
void grad_average_pool(GradBuilder& g) {
  g.add_grad(0, g.op("AveragePoolGrad", {g.dy(0)}, to_dims(g.attrs(), g.dims(g.in(0)))));
}
void grad_average_pool_grad(GradBuilder& g) {
  g.add_grad(0, g.op("AveragePool", {g.dy(0)}, to_dims(g.attrs(), g.dims(g.in(0)))));
}

// Decomposes MaxPoolGrad: adds the elements of dy at the positions of their taps.
std::vector<ValueId> decompose_max_pool_grad(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const Dims dx = a.ints("dims");
  Attrs window = a;
  window.set("full", dx);
  const int64_t n = numel(dx), k = numel(b.dims(in[0]));
  const ValueId at = b.reshape(b.op("MaxPoolIndex", {in[1]}, window), {k});
  const ValueId sum = b.op("ScatterRows", {b.reshape(in[0], {1, k, 1}), at},
                           {{"outer", int64_t{1}}, {"n", n}, {"inner", int64_t{1}}, {"dims", Dims{1, n, 1}}});
  return {b.reshape(sum, dx)};
}
OpDef max_pool_grad_def() {
  OpDef d = op_with_workspace<max_pool_grad>("MaxPoolGrad", infer_pool, nullptr);
  d.decomposition = decompose_max_pool_grad;
  return d;
}

OpDef index_def() {
  OpDef d;
  d.name = "MaxPoolIndex";
  d.infer = infer_max_pool_index;
  d.not_differentiable = true;
  return d;
}
const RegisterOp ops[] = {
    RegisterOp{op_with_workspace<max_pool>("MaxPool", infer_max_pool, grad_max_pool)}, RegisterOp{max_pool_grad_def()},
    RegisterOp{op_with_workspace<average_pool>("AveragePool", infer_pool, grad_average_pool)},
    RegisterOp{op_with_workspace<average_pool_grad>("AveragePoolGrad", infer_pool, grad_average_pool_grad)},
    RegisterOp{index_def()}};
const RegisterKernel kernels[] = {RegisterKernel{DeviceKind::cpu, "MaxPool", with_workspace<max_pool>},
                                  RegisterKernel{DeviceKind::cpu, "MaxPoolGrad", with_workspace<max_pool_grad>},
                                  RegisterKernel{DeviceKind::cpu, "AveragePool", with_workspace<average_pool>},
                                  RegisterKernel{DeviceKind::cpu, "AveragePoolGrad", with_workspace<average_pool_grad>},
                                  RegisterKernel{DeviceKind::cpu, "MaxPoolIndex", max_pool_index}};

Dims spatial_dims(const Lowering& l) {
  const Dims& x = l.dims(0);
  if (x.size() < 3) fail(Exit::model, "E_SHAPE", cat(l.node.op, " of ", to_string(x), ": needs (N, C, ...)"));
  return Dims(x.begin() + 2, x.end());
}

// Returns the core node's attributes for an input of dims x = (N, C, ...), whose spatial dims s describes.
Attrs pool_attrs(const Lowering& l, const Spatial& s, const Dims& x, bool ceil) {
  Dims y{x[0], x[1]};
  for (size_t i = 0; i < s.kernel.size(); ++i) {
    if (s.begin[i] >= s.reach(i) || s.end[i] >= s.reach(i)) {
      fail(Exit::model, "E_ATTR",
           cat(l.node.op, ": padding ", s.begin[i], " + ", s.end[i], " hides a whole window of ", s.reach(i)));
    }
    y.push_back(s.out(i, x[i + 2], ceil));
  }
  return to_dims(s.attrs(), y);
}

void lower_pool(Lowering& l) {
  Spatial s = read_spatial(l, spatial_dims(l), {}, AutoPad::undilated);
  const bool flat = l.rank(0) == 3;
  if (flat) s.push_front_unit();
  const ValueId x = with_height(l.b, l.in(0));
  const Dims dims = l.b.dims(x);
  Attrs a = pool_attrs(l, s, dims, l.attrs.i("ceil_mode", 0) != 0);
  if (l.node.op == "AveragePool") {
    a.set("count_include_pad", l.attrs.i("count_include_pad", 0));
    l.out(0, without_height(l.b, l.b.op("AveragePool", {x}, a), flat));
    return;
  }
  const std::vector<ValueId> y = l.b.ops("MaxPool", {x}, a);
  l.out(0, without_height(l.b, y[0], flat));
  if (l.wanted(1)) {
    if (l.attrs.i("storage_order", 0) != 0) l.unsupported("Indices in column-major order");
    a.set("full", dims);
    l.out(1, without_height(l.b, l.b.op("MaxPoolIndex", {y[1]}, a), flat));
  }
}

void lower_global_pool(Lowering& l) {
  const Dims in = spatial_dims(l);
  const size_t r = in.size();
  if (r > 3) l.unsupported(cat(r, " spatial dimensions"));
  Spatial s{in, Dims(r, 1), Dims(r, 1), Dims(r, 0), Dims(r, 0)};
  const bool flat = r == 1;
  if (flat) s.push_front_unit();
  const ValueId x = with_height(l.b, l.in(0));
  const Attrs a = pool_attrs(l, s, l.b.dims(x), false);
  l.out(0, without_height(l.b, l.b.op(l.node.op == "GlobalMaxPool" ? "MaxPool" : "AveragePool", {x}, a), flat));
}

const RegisterOnnx onnx[] = {RegisterOnnx{{"MaxPool", lower_pool, 1, {}}},
                             RegisterOnnx{{"AveragePool", lower_pool, 1, {}}},
                             RegisterOnnx{{"GlobalAveragePool", lower_global_pool, 1, {}}},
                             RegisterOnnx{{"GlobalMaxPool", lower_global_pool, 1, {}}}};

}  // namespace
}  // namespace amp
