#include "backend/cpu/conv.h"

#include "backend/cpu/conv_batch.h"
#include "backend/cpu/conv_channels.h"
#include "backend/cpu/conv_depthwise.h"
#include "backend/cpu/conv_depthwise_planes.h"
#include "backend/cpu/conv_direct.h"
#include "backend/cpu/conv_plain.h"
#include "backend/cpu/conv_pointwise.h"
#include "backend/cpu/conv_winograd.h"

namespace amp {

Kernel fastest_conv(const ConvShape& s, Carver& carve, const float* x, const float* w, const float* bias, float* y) {
  if (conv_pointwise_fits(s)) return conv_pointwise(s, carve, x, w, bias, y);
  if (conv_depthwise_planes_gain(s)) return conv_depthwise_planes(s, carve, x, w, bias, y);
  if (conv_depthwise_fits(s)) return conv_depthwise(s, carve, x, w, bias, y);
  if (const Winograd tile = winograd_tile(s); tile != Winograd::none)
    return conv_winograd(s, tile, carve, x, w, bias, y);
  if (conv_channels_gain(s)) return conv_channels(s, carve, x, w, bias, y);
  if (conv_batch_gains(s)) return conv_batch(s, carve, x, w, bias, y);
  if (conv_direct_fits(s)) return conv_direct(s, carve, x, w, bias, y);
  return [=] { conv_plain<float>(s, x, w, bias, y); };
}
Kernel fastest_conv_grad_x(const ConvShape& s, Carver& carve, const float* dy, const float* w, float* dx) {
  if (conv_pointwise_fits(s)) return conv_pointwise_grad_x(s, carve, dy, w, dx);
  if (conv_depthwise_planes_gain(s)) return conv_depthwise_planes_grad_x(s, carve, dy, w, dx);
  if (conv_depthwise_fits(s)) return conv_depthwise_grad_x(s, carve, dy, w, dx);
  if (const Winograd tile = winograd_tile(s); tile != Winograd::none)
    return conv_winograd_grad_x(s, tile, carve, dy, w, dx);
  if (conv_channels_gain(s)) return conv_channels_grad_x(s, carve, dy, w, dx);
  if (conv_batch_grad_x_gains(s)) return conv_batch_grad_x(s, carve, dy, w, dx);
  if (conv_direct_fits(s)) return conv_direct_grad_x(s, carve, dy, w, dx);
  return [=] { conv_plain_grad_x<float>(s, dy, w, dx); };
}
Kernel fastest_conv_grad_w(const ConvShape& s, Carver& carve, const float* x, const float* dy, float* dw) {
  if (conv_pointwise_fits(s)) return conv_pointwise_grad_w(s, carve, x, dy, dw);
  if (conv_depthwise_planes_gain(s)) return conv_depthwise_planes_grad_w(s, carve, x, dy, dw);
  if (conv_depthwise_fits(s)) return conv_depthwise_grad_w(s, carve, x, dy, dw);
  if (const Winograd tile = winograd_tile(s); tile != Winograd::none)
    return conv_winograd_grad_w(s, tile, carve, x, dy, dw);
  if (conv_channels_gain(s)) return conv_channels_grad_w(s, carve, x, dy, dw);
  if (conv_batch_grad_w_gains(s)) return conv_batch_grad_w(s, carve, x, dy, dw);
  if (conv_direct_fits(s)) return conv_direct_grad_w(s, carve, x, dy, dw);
  return [=] { conv_plain_grad_w<float>(s, x, dy, dw); };
}

namespace {

// Loads the staged inputs, works, stores the staged output. body: prepared after staging has carved its share.
template <class T, class... In>
Kernel staged(Kernel body, const Staged<T>& out, const In&... in) {
  if (!out.copied && (!in.copied && ...)) return body;
  return [=] {
    (in.load(), ...);
    body();
    out.store();
  };
}

template <class T>
Kernel forward(const KernelArgs& a, Carver& carve) {
  const ConvShape s = conv_shape(a.in[0].dims, a.in[1].dims, a.out[0].dims, a.attrs());
  const auto x = stage<T>(carve, a.in[0]), w = stage<T>(carve, a.in[1]);
  const auto bias = a.has(2) ? stage<T>(carve, a.in[2]) : Staged<T>{};
  const auto y = stage<T>(carve, a.out[0]);
  Kernel body;
  if constexpr (std::is_same_v<T, float>)
    body = fastest_conv(s, carve, x.data, w.data, bias.data, y.data);
  else
    body = [=] { conv_plain<T>(s, x.data, w.data, bias.data, y.data); };
  return staged(std::move(body), y, x, w, bias);
}

template <class T>
Kernel grad_x(const KernelArgs& a, Carver& carve) {
  const ConvShape s = conv_shape(a.out[0].dims, a.in[1].dims, a.in[0].dims, a.attrs());
  const auto dy = stage<T>(carve, a.in[0]), w = stage<T>(carve, a.in[1]), dx = stage<T>(carve, a.out[0]);
  Kernel body;
  if constexpr (std::is_same_v<T, float>)
    body = fastest_conv_grad_x(s, carve, dy.data, w.data, dx.data);
  else
    body = [=] { conv_plain_grad_x<T>(s, dy.data, w.data, dx.data); };
  return staged(std::move(body), dx, dy, w);
}

template <class T>
Kernel grad_w(const KernelArgs& a, Carver& carve) {
  const ConvShape s = conv_shape(a.in[0].dims, a.out[0].dims, a.in[1].dims, a.attrs());
  const auto x = stage<T>(carve, a.in[0]), dy = stage<T>(carve, a.in[1]), dw = stage<T>(carve, a.out[0]);
  Kernel body;
  if constexpr (std::is_same_v<T, float>)
    body = fastest_conv_grad_w(s, carve, x.data, dy.data, dw.data);
  else
    body = [=] { conv_plain_grad_w<T>(s, x.data, dy.data, dw.data); };
  return staged(std::move(body), dw, x, dy);
}

}  // namespace

Kernel conv_forward(const KernelArgs& a, Carver& c) {
  return in_double(a) ? forward<double>(a, c) : forward<float>(a, c);
}
Kernel conv_grad_x(const KernelArgs& a, Carver& c) { return in_double(a) ? grad_x<double>(a, c) : grad_x<float>(a, c); }
Kernel conv_grad_w(const KernelArgs& a, Carver& c) { return in_double(a) ? grad_w<double>(a, c) : grad_w<float>(a, c); }

}  // namespace amp
