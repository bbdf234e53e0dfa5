// Convolution on the CPU: selects the implementation by shape, storage types and CPU features, and converts operands
// that the implementation cannot read.
// The order of preference is: pointwise, bf16 vectorized over channels, Winograd, then the choice of conv_in_float().

#include "backend/cpu/conv/conv.h"

#include <algorithm>

#include "backend/cpu/conv/conv_batch.h"
#include "backend/cpu/conv/conv_channels.h"
#include "backend/cpu/conv/conv_depthwise.h"
#include "backend/cpu/conv/conv_depthwise_planes.h"
#include "backend/cpu/conv/conv_direct.h"
#include "backend/cpu/conv/conv_plain.h"
#include "backend/cpu/conv/conv_pointwise.h"
#include "backend/cpu/conv/conv_winograd.h"
#include "backend/cpu/isa_kernels.h"

namespace amp {

namespace {

Kernel conv_in_float(const ConvShape& s, Carver& carve, const float* x, const float* w, const float* bias, float* y) {
  if (conv_depthwise_planes_gain(s)) return conv_depthwise_planes(s, carve, x, w, bias, y);
  if (conv_depthwise_fits(s)) return conv_depthwise(s, carve, x, w, bias, y);
  if (conv_batch_gains(s)) return conv_batch(s, carve, x, w, bias, y);
  if (conv_channels_gain(s)) return conv_channels(s, carve, x, w, bias, y);
  if (conv_direct_fits(s)) return conv_direct(s, carve, x, w, bias, y);
  return [=] { conv_plain<float>(s, x, w, bias, y); };
}
Kernel grad_x_in_float(const ConvShape& s, Carver& carve, const float* dy, const float* w, float* dx) {
  if (conv_depthwise_planes_gain(s)) return conv_depthwise_planes_grad_x(s, carve, dy, w, dx);
  if (conv_depthwise_fits(s)) return conv_depthwise_grad_x(s, carve, dy, w, dx);
  if (conv_batch_grad_x_gains(s)) return conv_batch_grad_x(s, carve, dy, w, dx);
  if (conv_channels_gain(s)) return conv_channels_grad_x(s, carve, dy, w, dx);
  if (conv_direct_fits(s)) return conv_direct_grad_x(s, carve, dy, w, dx);
  return [=] { conv_plain_grad_x<float>(s, dy, w, dx); };
}
Kernel grad_w_in_float(const ConvShape& s, Carver& carve, const float* x, const float* dy, float* dw) {
  if (conv_depthwise_planes_gain(s)) return conv_depthwise_planes_grad_w(s, carve, x, dy, dw);
  if (conv_depthwise_fits(s)) return conv_depthwise_grad_w(s, carve, x, dy, dw);
  if (conv_batch_grad_w_gains(s)) return conv_batch_grad_w(s, carve, x, dy, dw);
  if (conv_channels_gain(s)) return conv_channels_grad_w(s, carve, x, dy, dw);
  if (conv_direct_fits(s)) return conv_direct_grad_w(s, carve, x, dy, dw);
  return [=] { conv_plain_grad_w<float>(s, x, dy, dw); };
}

// Returns true if multiplying bf16 directly, vectorized over channels, is faster than Winograd. An avx512_bf16
// instruction does the work of two fp32 instructions. So Winograd is faster only if the direct computation takes at
// least kSaved times the work of Winograd. With AMX, multiplying directly is always faster.
bool bf16_channels_gain(const ConvShape& s, const Stored& a, const Stored& b) {
  constexpr double kSaved = 3;
  return a.dtype == DType::bf16 && conv_channels_takes(a.dtype, b.dtype) && conv_channels_gain(s) &&
         (cpu::isa_kernels().tiles || winograd_tile(s, kSaved) == Winograd::none);
}
// Like bf16_channels_gain(), for the gradient to the weight. Also returns true if there are many channels, because the
// transformed sums of Winograd's algorithm grow with the product of input and output channels.
bool bf16_channels_gain_w(const ConvShape& s, const Stored& x, const Stored& dy) {
  constexpr int64_t kMany = 128;
  return s.groups == 1 && s.n > 1 && conv_channels_takes(x.dtype, dy.dtype) &&
         (bf16_channels_gain(s, x, dy) || (x.dtype == DType::bf16 && std::min(s.c, s.m) >= kMany));
}

// Returns n elements in fp32: the stored elements if they are fp32, otherwise a staged copy.
template <class Of>
Staged<float> in_float(Carver& carve, const Of& of, int64_t n) {
  return stage<float>(carve, Tensor{const_cast<void*>(static_cast<const void*>(of.data)), of.dtype, {n}});
}

// Returns true if a or b is stored in fp16, which only pointwise kernels read directly.
bool is_half(const Stored& a, const Stored& b) { return a.dtype == DType::f16 || b.dtype == DType::f16; }

// Returns a kernel that loads the staged inputs, runs `body`, and stores the staged output. The caller must stage the
// operands before it prepares `body`, so that workspace is taken in the same order.
template <class T, class... In>
Kernel staged(Kernel body, const Staged<T>& out, const In&... in) {
  if (!out.copied && (!in.copied && ...)) return body;
  return [=] {
    (in.load(), ...);
    body();
    out.store();
  };
}

// Return the numbers of elements of x, y and w.
int64_t size_x(const ConvShape& s) { return s.n * s.groups * s.c * s.in_size(); }
int64_t size_y(const ConvShape& s) { return s.n * s.groups * s.m * s.out_size(); }
int64_t size_w(const ConvShape& s) { return s.groups * s.m * s.c * s.taps(); }

}  // namespace

Kernel fastest_conv(const ConvShape& s, Carver& carve, const Stored& x, const Stored& w, const Stored& bias,
                    const StoredOut& y) {
  if (conv_pointwise_fits(s)) return conv_pointwise(s, carve, x, w, bias, y);
  const auto b = in_float(carve, bias, s.groups * s.m);
  if (is_half(x, y)) {
    const auto from = in_float(carve, x, size_x(s)), to = in_float(carve, y, size_y(s));
    return staged(fastest_conv(s, carve, from.data, w, b.data, to.data), to, from, b);
  }
  if (bf16_channels_gain(s, x, w)) return staged(conv_channels(s, carve, x, w, b.data, y), Staged<float>{}, b);
  const auto weight = in_float(carve, w, size_w(s));
  if (const Winograd tile = winograd_tile(s); tile != Winograd::none)
    return staged(conv_winograd(s, tile, carve, x, weight.data, b.data, y), Staged<float>{}, weight, b);
  const auto from = in_float(carve, x, size_x(s)), to = in_float(carve, y, size_y(s));
  return staged(conv_in_float(s, carve, from.data, weight.data, b.data, to.data), to, from, weight, b);
}
Kernel fastest_conv_grad_x(const ConvShape& s, Carver& carve, const Stored& dy, const Stored& w, const StoredOut& dx) {
  if (conv_pointwise_fits(s)) return conv_pointwise_grad_x(s, carve, dy, w, dx);
  if (is_half(dy, dx)) {
    const auto from = in_float(carve, dy, size_y(s)), to = in_float(carve, dx, size_x(s));
    return staged(fastest_conv_grad_x(s, carve, from.data, w, to.data), to, from);
  }
  if (bf16_channels_gain(s, dy, w)) return conv_channels_grad_x(s, carve, dy, w, dx);
  const auto weight = in_float(carve, w, size_w(s));
  if (const Winograd tile = winograd_tile(s); tile != Winograd::none)
    return staged(conv_winograd_grad_x(s, tile, carve, dy, weight.data, dx), Staged<float>{}, weight);
  const auto from = in_float(carve, dy, size_y(s)), to = in_float(carve, dx, size_x(s));
  return staged(grad_x_in_float(s, carve, from.data, weight.data, to.data), to, from, weight);
}
Kernel fastest_conv_grad_w(const ConvShape& s, Carver& carve, const Stored& x, const Stored& dy, const StoredOut& dw) {
  const auto to = in_float(carve, dw, size_w(s));
  if (conv_pointwise_fits(s)) return staged(conv_pointwise_grad_w(s, carve, x, dy, to.data), to);
  if (is_half(x, dy)) {
    const auto from = in_float(carve, x, size_x(s)), grad = in_float(carve, dy, size_y(s));
    return staged(fastest_conv_grad_w(s, carve, from.data, grad.data, to.data), to, from, grad);
  }
  if (bf16_channels_gain_w(s, x, dy)) return staged(conv_channels_grad_w(s, carve, x, dy, to.data), to);
  if (const Winograd tile = winograd_tile(s); tile != Winograd::none)
    return staged(conv_winograd_grad_w(s, tile, carve, x, dy, to.data), to);
  const auto from = in_float(carve, x, size_x(s)), grad = in_float(carve, dy, size_y(s));
  return staged(grad_w_in_float(s, carve, from.data, grad.data, to.data), to, from, grad);
}

Kernel conv_forward(const KernelArgs& a, Carver& carve) {
  const ConvShape s = conv_shape(a.in[0].dims, a.in[1].dims, a.out[0].dims, a.attrs());
  if (!in_double(a)) return fastest_conv(s, carve, a.in[0], a.in[1], a.has(2) ? Stored(a.in[2]) : Stored{}, a.out[0]);
  const auto x = stage<double>(carve, a.in[0]), w = stage<double>(carve, a.in[1]);
  const auto bias = a.has(2) ? stage<double>(carve, a.in[2]) : Staged<double>{};
  const auto y = stage<double>(carve, a.out[0]);
  return staged([=] { conv_plain<double>(s, x.data, w.data, bias.data, y.data); }, y, x, w, bias);
}

Kernel conv_grad_x(const KernelArgs& a, Carver& carve) {
  const ConvShape s = conv_shape(a.out[0].dims, a.in[1].dims, a.in[0].dims, a.attrs());
  if (!in_double(a)) return fastest_conv_grad_x(s, carve, a.in[0], a.in[1], a.out[0]);
  const auto dy = stage<double>(carve, a.in[0]), w = stage<double>(carve, a.in[1]), dx = stage<double>(carve, a.out[0]);
  return staged([=] { conv_plain_grad_x<double>(s, dy.data, w.data, dx.data); }, dx, dy, w);
}

Kernel conv_grad_w(const KernelArgs& a, Carver& carve) {
  const ConvShape s = conv_shape(a.in[0].dims, a.out[0].dims, a.in[1].dims, a.attrs());
  if (!in_double(a)) return fastest_conv_grad_w(s, carve, a.in[0], a.in[1], a.out[0]);
  const auto x = stage<double>(carve, a.in[0]), dy = stage<double>(carve, a.in[1]), dw = stage<double>(carve, a.out[0]);
  return staged([=] { conv_plain_grad_w<double>(s, x.data, dy.data, dw.data); }, dw, x, dy);
}

}  // namespace amp
