// Conv (ONNX 1+) and com.microsoft FusedConv. Core operators, 2-d and 3-d, all attributes explicit
// (backend/sliding_window.h):
//
//   Conv(x, w, bias?)       y[n,m,o] = bias[m] + sum_{c,k} w[m,c,k] x[n,c, o stride + k dilation - pad]
//   ConvGradX(dy, w) {dims} the gradient to x; also the forward pass of ConvTranspose
//   ConvGradW(x, dy) {dims} the gradient to w
//
// The three operators are derivatives of one trilinear form T(x, w, dy), so the gradients of each are the other two. On
// a GPU their layout may be NHWC (attribute channels_last).
#include "backend/cpu/conv/conv.h"

#include "backend/channels_last.h"
#include "backend/node_work.h"
#include "backend/sliding_window.h"
#include "ops/composed/fused_activation.h"
#include "ops/conv.h"
#include "ops/elementwise_op.h"
#include "ops/spatial.h"

namespace amp {
namespace {

Dims conv_dims(const Dims& x, const Dims& w, const Attrs& a) {
  const auto strides = a.ints("strides"), dilations = a.ints("dilations"), pads = a.ints("pads");
  const size_t r = x.size() - 2;
  Dims y{x[0], w[0]};
  for (size_t i = 0; i < r; ++i)
    y.push_back((x[i + 2] + pads[i] + pads[r + i] - (w[i + 2] - 1) * dilations[i] - 1) / strides[i] + 1);
  return y;
}

void infer_conv(InferCtx& c) {
  const bool last = has_channels_last(c.attrs);
  const auto first = [&](const Dims& d) { return last ? channels_first(d) : d; };
  const Dims x = first(c.in(0).dims), w = first(c.in(1).dims);
  const int64_t group = c.attrs.i("group", 1);
  if (x.size() != w.size() || x[1] != w[1] * group || w[0] % group != 0) {
    fail(Exit::model, "E_SHAPE",
         cat("convolution of ", to_string(x), " with weight ", to_string(w), " in ", group, " groups"));
  }
  if (c.n_in() > 2 && c.inputs[2] && c.in(2).dims != Dims{w[0]}) {
    fail(Exit::model, "E_SHAPE", cat("bias ", to_string(c.in(2).dims), " for ", w[0], " output channels"));
  }
  const Dims y = conv_dims(x, w, c.attrs);
  c.out(c.in(0).dtype, last ? channels_last(y) : y);
}
void infer_dims(InferCtx& c) { c.out(c.in(0).dtype, c.attrs.ints("dims")); }

Attrs with_dims(const Attrs& a, const Dims& dims) {
  Attrs b = a;
  b.set("dims", dims);
  return b;
}
Attrs without_dims(const Attrs& a) {
  Attrs b;
  for (const auto& [name, v] : a.items()) {
    if (name != "dims") b.set(name, v);
  }
  return b;
}

void grad_conv(GradBuilder& g) {
  const ValueId x = g.in(0), w = g.in(1), dy = g.dy(0);
  if (g.needs(0)) g.add_grad(0, g.op("ConvGradX", {dy, w}, with_dims(g.attrs(), g.dims(x))));
  if (g.needs(1)) g.add_grad(1, g.op("ConvGradW", {x, dy}, with_dims(g.attrs(), g.dims(w))));
  if (g.needs(2)) {
    std::vector<int64_t> axes{0};
    for (int64_t i = 2; i < g.b.rank(dy); ++i) axes.push_back(i);
    g.add_grad(2, g.b.reduce_sum(dy, axes, false));
  }
}
// Adds the gradients of dx = ConvGradX(dy, w): the other two operators, applied to dx's gradient (see the file's
// top).
void grad_conv_grad_x(GradBuilder& g) {
  const Attrs a = without_dims(g.attrs());
  if (g.needs(0)) g.add_grad(0, g.op("Conv", {g.dy(0), g.in(1)}, a));
  if (g.needs(1)) g.add_grad(1, g.op("ConvGradW", {g.dy(0), g.in(0)}, with_dims(a, g.dims(g.in(1)))));
}
// Adds the gradients of dw = ConvGradW(x, dy): the other two operators, applied to dw's gradient (see the file's
// top).
void grad_conv_grad_w(GradBuilder& g) {
  const Attrs a = without_dims(g.attrs());
  if (g.needs(0)) g.add_grad(0, g.op("ConvGradX", {g.in(1), g.dy(0)}, with_dims(a, g.dims(g.in(0)))));
  if (g.needs(1)) g.add_grad(1, g.op("Conv", {g.in(0), g.dy(0)}, a));
}

const RegisterOp ops[] = {RegisterOp{op_with_workspace<conv_forward>("Conv", infer_conv, grad_conv)},
                          RegisterOp{op_with_workspace<conv_grad_x>("ConvGradX", infer_dims, grad_conv_grad_x)},
                          RegisterOp{op_with_workspace<conv_grad_w>("ConvGradW", infer_dims, grad_conv_grad_w)}};
const RegisterKernel kernels[] = {RegisterKernel{DeviceKind::cpu, "Conv", with_workspace<conv_forward>},
                                  RegisterKernel{DeviceKind::cpu, "ConvGradX", with_workspace<conv_grad_x>},
                                  RegisterKernel{DeviceKind::cpu, "ConvGradW", with_workspace<conv_grad_w>}};

// Returns the FLOPs. Each element of y is a sum over one kernel of w (M, C / group, ...). Products with padding count
// too.
double products(const Tensor& y, const Tensor& w) {
  return 2.0 * static_cast<double>(y.numel()) * static_cast<double>(w.numel() / w.dims.at(0));
}
const RegisterFlops flops[] = {{"Conv", [](const KernelArgs& a) { return products(a.out[0], a.in[1]); }},
                               {"ConvGradX", [](const KernelArgs& a) { return products(a.in[0], a.in[1]); }},
                               {"ConvGradW", [](const KernelArgs& a) { return products(a.in[1], a.out[0]); }}};

}  // namespace

ValueId convolution(const Lowering& l, ValueId input, ValueId weight, ValueId bias) {
  Builder& b = l.b;
  const Dims x = b.dims(input), w = b.dims(weight);
  if (x.size() < 3 || w.size() != x.size()) {
    fail(Exit::model, "E_ATTR",
         cat("Conv of ", to_string(x), " with weight ", to_string(w), ": ranks must be equal, 3 or more"));
  }
  const int64_t group = l.attrs.i("group", 1);
  if (group < 1) fail(Exit::model, "E_ATTR", cat("Conv: group ", group));
  const bool flat = x.size() == 3;
  Spatial s = read_spatial(l, Dims(x.begin() + 2, x.end()), Dims(w.begin() + 2, w.end()));
  for (size_t i = 0; i < s.kernel.size(); ++i) s.out(i, x[i + 2]);  // s.out() checks that the kernel fits
  if (flat) s.push_front_unit();
  Attrs a = s.attrs();
  a.set("group", group);
  std::vector<ValueId> in{with_height(b, input), with_height(b, weight)};
  if (bias) in.push_back(bias);
  return without_height(b, b.op("Conv", std::move(in), std::move(a)), flat);
}

namespace {

ValueId own_convolution(const Lowering& l) { return convolution(l, l.in(0), l.in(1), l.in_or(2, {})); }
void lower_conv(Lowering& l) { l.out(0, own_convolution(l)); }
// Lowers com.microsoft FusedConv, which adds input 3 before the activation.
void lower_fused_conv(Lowering& l) {
  ValueId y = own_convolution(l);
  if (l.has(3)) y = l.b.op("Add", {y, l.in(3)});
  l.out(0, fused_activation(l, y, l.attrs.s("activation", ""), l.attrs.floats("activation_params")));
}
const RegisterOnnx onnx[] = {RegisterOnnx{{"Conv", lower_conv, 1, {}}},
                             RegisterOnnx{{"FusedConv", lower_fused_conv, 1, "com.microsoft"}}};

}  // namespace
}  // namespace amp
