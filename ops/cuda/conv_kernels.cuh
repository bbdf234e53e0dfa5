// Kernels that run before and after the matrix products of a convolution (conv.cu), and kernels of depthwise
// convolutions, which need no matrix products.
#pragma once

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cuda/rows.cuh"
#include "backend/cuda/typed.cuh"
#include "backend/cuda/window.cuh"

namespace amp::cuda {

// im2col: writes a row for every image, channel and tap (element of the convolution's kernel). Element p of a row is
// the input that the tap multiplies for output p of the image; 0 in the padding. Consecutive rows belong to one image
// (images_inside false) or to one channel and tap (true). E: an integer type of the elements' size.
template <class E>
struct Im2col {
  const E* x;
  E* columns;
  DeviceWindow w;
  int64_t channels;  // number of channels of an image, in all groups together
  bool images_inside;
  SmallDivisor by_images, by_taps;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    int rest = static_cast<int>(row);
    int64_t plane = 0;
    int tap;
    if (images_inside) {
      plane = by_images.split(rest) * channels;
      tap = by_taps.split(rest);
      plane += rest;
    } else {
      tap = by_taps.split(rest);
      plane = rest;
    }
    const int kw = tap % w.w.kernel, kh = tap / w.w.kernel % w.h.kernel, kd = tap / (w.w.kernel * w.h.kernel);
    const E* const from = x + plane * w.in_size();
    const int64_t n = w.out_size();
    E* const to = columns + row * n;
    team.for_each(n, [&](int64_t p) {
      int od, oh, ow;
      w.output(static_cast<int>(p), od, oh, ow);
      const int id = w.d.at(od, kd), ih = w.h.at(oh, kh), iw = w.w.at(ow, kw);
      const bool inside = id >= 0 && id < w.d.in && ih >= 0 && ih < w.h.in && iw >= 0 && iw < w.w.in;
      to[p] = inside ? from[(id * w.h.in + ih) * w.w.in + iw] : E(0);
    });
  }
};

// im2col of a channels-last input: writes a row for every output of every image. A row contains the channels for tap
// 0, then for tap 1, and so on. Each group has a separate matrix of images * out_size() rows.
template <class E>
struct Im2colLast {
  const E* x;
  E* columns;
  DeviceWindow w;
  int64_t rows, group;                          // rows and columns of a group's matrix
  SmallDivisor by_channels, by_group_channels;  // channels of an image, channels of a group
  DEV void operator()(int64_t row, const RowTeam& team) const {
    const int64_t out = w.out_size(), image = quotient(row, out), channels = by_channels.d;
    int od, oh, ow;
    w.output(static_cast<int>(row - image * out), od, oh, ow);
    const E* const from = x + image * w.in_size() * channels;
    team.for_each(w.taps() * channels, [&](int64_t i) {
      int tap = static_cast<int>(i);
      const int channel = by_channels.split(tap), kw = tap % w.w.kernel, kh = tap / w.w.kernel % w.h.kernel,
                kd = tap / (w.w.kernel * w.h.kernel);
      const int id = w.d.at(od, kd), ih = w.h.at(oh, kh), iw = w.w.at(ow, kw);
      const bool inside = id >= 0 && id < w.d.in && ih >= 0 && ih < w.h.in && iw >= 0 && iw < w.w.in;
      int g = channel;
      const int within = by_group_channels.split(g);
      columns[(g * rows + row) * group + tap * static_cast<int>(by_group_channels.d) + within] =
          inside ? from[((int64_t{id} * w.h.in + ih) * w.w.in + iw) * channels + channel] : E(0);
    });
  }
};

// Transposes (images, channels, n) to (channels, images, n).
template <class E>
struct ChannelsFirst {
  const E* x;
  E* y;
  int64_t channels, n;
  SmallDivisor by_images;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    int channel = static_cast<int>(row);
    const int image = by_images.split(channel);
    const E* const from = x + (image * channels + channel) * n;
    E* const to = y + row * n;
    team.for_each(n, [&](int64_t i) { to[i] = from[i]; });
  }
};

// The transpose of Im2col: each element of dx is the sum of the columns' elements for the windows that cover it, in the
// order of the outputs. Runs for a range of images; the part of dx for this range begins at index `first`.
struct Col2im {
  const float* columns;
  Ref dx;
  int64_t first;  // element of dx that index 0 of this run computes
  DeviceWindow w;
  DEV void operator()(int64_t i) const {
    const int64_t in = w.in_size(), out = w.out_size(), plane = quotient(i, in);
    const float* const from = columns + plane * w.taps() * out;
    float sum = 0;
    each_output(w, static_cast<int>(i - plane * in),
                [&](int o, int, int, int, int tap) { sum += from[tap * out + o]; });
    store(dx, first + i, sum);
  }
};

// The transpose of Im2colLast for a range of images; the part of dx for this range begins at index `first`.
struct Col2imLast {
  const float* columns;
  Ref dx;
  int64_t first;  // element of dx that index 0 of this run computes
  DeviceWindow w;
  int64_t rows, group, channels, group_channels;
  DEV void operator()(int64_t i) const {
    const int64_t in = w.in_size(), place = quotient(i, channels), channel = i - place * channels,
                  image = quotient(place, in), g = quotient(channel, group_channels);
    const float* const from = columns + (g * rows + image * w.out_size()) * group + (channel - g * group_channels);
    float sum = 0;
    each_output(w, static_cast<int>(place - image * in),
                [&](int o, int, int, int, int tap) { sum += from[o * group + tap * group_channels]; });
    store(dx, first + i, sum);
  }
};

// Sets y to the bias of its channel, or to 0 without a bias.
struct FillChannels {
  Ref y, bias;
  int64_t channels, n;
  DEV void operator()(int64_t i) const { store(y, i, bias ? load<float>(bias, quotient(i, n) % channels) : 0.0f); }
};

// Depthwise convolution: each group has one input channel and m output channels.
template <class R>
struct DepthwiseForward {
  R x, w, bias, y;
  DeviceWindow window;
  int64_t groups, m;
  DEV void operator()(int64_t i) const {
    const int64_t out = window.out_size(), plane = quotient(i, out), image = quotient(plane, groups * m),
                  channel = plane - image * groups * m;
    const int64_t from = (image * groups + channel / m) * window.in_size(), weight = channel * window.taps();
    int od, oh, ow;
    window.output(static_cast<int>(i - plane * out), od, oh, ow);
    float sum = bias ? load<float>(bias, channel) : 0.0f;
    each_tap(window, od, oh, ow,
             [&](int tap, int at) { sum += load<float>(w, weight + tap) * load<float>(x, from + at); });
    store(y, i, sum);
  }
};
template <class R>
struct DepthwiseGradX {
  R dy, w, dx;
  DeviceWindow window;
  int64_t m;
  SmallDivisor by_groups;
  DEV void operator()(int64_t i) const {
    const int64_t in = window.in_size(), out = window.out_size(), plane = quotient(i, in);
    int image = static_cast<int>(plane);
    const int group = by_groups.split(image);
    float sum = 0;
    for (int64_t k = 0; k < m; ++k) {
      const int64_t from = (plane * m + k) * out, weight = (group * m + k) * window.taps();
      each_output(window, static_cast<int>(i - plane * in), [&](int o, int, int, int, int tap) {
        sum += load<float>(dy, from + o) * load<float>(w, weight + tap);
      });
    }
    store(dx, i, sum);
  }
};
// Computes dw. A row kernel with one row per weight, because the gradient is a sum over images and outputs.
template <class R>
struct DepthwiseGradW {
  R x, dy;
  Ref dw;
  DeviceWindow window;
  int64_t images, groups, m;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    const int taps = window.taps();
    const int64_t channel = row / taps, out = window.out_size();
    const int tap = static_cast<int>(row - channel * taps);
    const int kw = tap % window.w.kernel, kh = tap / window.w.kernel % window.h.kernel,
              kd = tap / (window.w.kernel * window.h.kernel);
    float sum = 0;
    team.for_each(images * out, [&](int64_t j) {
      const int64_t image = quotient(j, out);
      int od, oh, ow;
      window.output(static_cast<int>(j - image * out), od, oh, ow);
      const int id = window.d.at(od, kd), ih = window.h.at(oh, kh), iw = window.w.at(ow, kw);
      if (id < 0 || id >= window.d.in || ih < 0 || ih >= window.h.in || iw < 0 || iw >= window.w.in) return;
      const int64_t at = (image * groups + channel / m) * window.in_size() + (id * window.h.in + ih) * window.w.in + iw;
      sum += load<float>(x, at) * load<float>(dy, (image * groups * m + channel) * out + (j - image * out));
    });
    sum = team.reduce(sum, 0.0f, Sum{});
    if (team.leads()) store(dw, row, sum);
  }
};

}  // namespace amp::cuda
