// Implements photo.h. Results have to equal Pillow's bit for bit, so the arithmetic (floats, truncation, 16.16 fixed
// point) repeats its C code. Tests compare with images made by torchvision.
#include "data/transforms/photo.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace amp {

namespace {

uint8_t clip8(int v) { return static_cast<uint8_t>(std::clamp(v, 0, 255)); }

// Computes PIL.Image.blend: from + factor (to - from) in floats, truncated.
Image blended(const Image& from, Image to, double factor) {
  const auto alpha = static_cast<float>(factor);
  for (size_t i = 0; i < to.data.size(); ++i) {
    const int a = from.data[i], b = to.data[i];
    const float v = static_cast<float>(a) + alpha * static_cast<float>(b - a);
    to.data[i] = v <= 0 ? 0 : v >= 255 ? 255 : static_cast<uint8_t>(v);
  }
  return to;
}

using Curve = std::array<uint8_t, 256>;

template <class F>
Curve curve(F&& f) {
  Curve out;
  for (int v = 0; v < 256; ++v) out[static_cast<size_t>(v)] = f(v);
  return out;
}

Image through(Image image, const Curve& c) {
  for (uint8_t& v : image.data) v = c[v];
  return image;
}

std::array<int64_t, 256> histogram(const Image& image, int64_t channel) {
  std::array<int64_t, 256> out{};
  for (size_t i = static_cast<size_t>(channel); i < image.data.size(); i += static_cast<size_t>(image.channels))
    ++out[image.data[i]];
  return out;
}

// Applies a separate curve to each channel, computed from its histogram.
template <class F>
Image by_channel(Image image, F&& curve_of) {
  for (int64_t c = 0; c < image.channels; ++c) {
    const Curve lut = curve_of(histogram(image, c));
    for (size_t i = static_cast<size_t>(c); i < image.data.size(); i += static_cast<size_t>(image.channels))
      image.data[i] = lut[image.data[i]];
  }
  return image;
}

// Applies PIL.ImageFilter.SMOOTH: weights of 1 around a 5, divided by 13. The border is not changed.
Image smoothed(const Image& in) {
  Image out = in;
  const int64_t c = in.channels;
  for (int64_t y = 1; y + 1 < in.height; ++y) {
    for (int64_t i = c; i < (in.width - 1) * c; ++i) {
      int sum = 4 * in.row(y)[i];
      for (int64_t dy = -1; dy <= 1; ++dy) sum += in.row(y + dy)[i - c] + in.row(y + dy)[i] + in.row(y + dy)[i + c];
      out.row(y)[i] = clip8((2 * sum + 13) / 26);
    }
  }
  return out;
}

// Returns hue, saturation and value as Pillow's bytes.
std::array<uint8_t, 3> to_hsv(const uint8_t* p) {
  const uint8_t high = std::max({p[0], p[1], p[2]}), low = std::min({p[0], p[1], p[2]});
  if (high == low) return {0, 0, high};
  const auto reach = static_cast<float>(high - low);
  const float s = reach / static_cast<float>(high);
  const float r = static_cast<float>(high - p[0]) / reach, g = static_cast<float>(high - p[1]) / reach,
              b = static_cast<float>(high - p[2]) / reach;
  float h;
  if (p[0] == high) {
    h = b - g;
  } else if (p[1] == high) {
    h = static_cast<float>(2.0 + static_cast<double>(r) - static_cast<double>(b));
  } else {
    h = static_cast<float>(4.0 + static_cast<double>(g) - static_cast<double>(r));
  }
  h = static_cast<float>(std::fmod(static_cast<double>(h) / 6.0 + 1.0, 1.0));
  return {clip8(static_cast<int>(static_cast<double>(h) * 255.0)),
          clip8(static_cast<int>(static_cast<double>(s) * 255.0)), high};
}

void from_hsv(const std::array<uint8_t, 3>& hsv, uint8_t* out) {
  const uint8_t h = hsv[0], s = hsv[1], v = hsv[2];
  if (s == 0) {
    out[0] = out[1] = out[2] = v;
    return;
  }
  const double sixth = static_cast<double>(static_cast<float>(h)) * 6.0 / 255.0;
  const int i = static_cast<int>(std::floor(sixth));
  const auto f = static_cast<double>(static_cast<float>(sixth - static_cast<double>(static_cast<float>(i))));
  const auto fs = static_cast<double>(static_cast<float>(static_cast<double>(s) / 255.0));
  const auto part = [&](double x) { return clip8(static_cast<int>(std::round(static_cast<double>(v) * x))); };
  const uint8_t p = part(1.0 - fs), q = part(1.0 - fs * f), t = part(1.0 - fs * (1.0 - f));
  const std::array<std::array<uint8_t, 3>, 6> wheel = {
      {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  std::copy_n(wheel[static_cast<size_t>(i % 6)].data(), 3, out);
}

}  // namespace

Image adjust_brightness(Image image, double factor) {
  const Image black(image.width, image.height, image.channels);
  return blended(black, std::move(image), factor);
}

Image adjust_contrast(Image image, double factor) {
  const Image grey = to_grey(image);
  int64_t sum = 0;
  for (const uint8_t v : grey.data) sum += v;
  const double mean = static_cast<double>(sum) / static_cast<double>(grey.data.size());
  const Image flat(image.width, image.height, image.channels, static_cast<uint8_t>(mean + 0.5));
  return blended(flat, std::move(image), factor);
}

Image adjust_saturation(Image image, double factor) {
  if (image.channels == 1) return image;
  const Image grey = to_rgb(to_grey(image));
  return blended(grey, std::move(image), factor);
}

Image adjust_sharpness(Image image, double factor) {
  const Image smooth = smoothed(image);
  return blended(smooth, std::move(image), factor);
}

Image adjust_hue(Image image, double shift) {
  if (image.channels == 1) return image;
  const auto by = static_cast<uint8_t>(static_cast<int32_t>(shift * 255));  // the cast keeps the value modulo 256
  for (size_t i = 0; i < image.data.size(); i += 3) {
    std::array<uint8_t, 3> hsv = to_hsv(&image.data[i]);
    hsv[0] = static_cast<uint8_t>(hsv[0] + by);
    from_hsv(hsv, &image.data[i]);
  }
  return image;
}

Image posterized(Image image, int bits) {
  const int mask = ~((1 << (8 - bits)) - 1);
  return through(std::move(image), curve([&](int v) { return static_cast<uint8_t>(v & mask); }));
}

Image solarized(Image image, double threshold) {
  return through(std::move(image), curve([&](int v) { return static_cast<uint8_t>(v < threshold ? v : 255 - v); }));
}

Image autocontrasted(Image image) {
  return by_channel(std::move(image), [](const std::array<int64_t, 256>& h) {
    int low = 0, high = 255;
    while (low < 255 && !h[static_cast<size_t>(low)]) ++low;
    while (high > 0 && !h[static_cast<size_t>(high)]) --high;
    if (high <= low) return curve([](int v) { return static_cast<uint8_t>(v); });
    const double scale = 255.0 / (high - low), offset = -low * scale;
    return curve([&](int v) { return clip8(static_cast<int>(v * scale + offset)); });
  });
}

Image equalized(Image image) {
  return by_channel(std::move(image), [](const std::array<int64_t, 256>& h) {
    int64_t all = 0, last = 0, used = 0;
    for (const int64_t n : h) {
      all += n;
      used += n > 0;
      if (n > 0) last = n;
    }
    const int64_t step = used > 1 ? (all - last) / 255 : 0;
    if (step == 0) return curve([](int v) { return static_cast<uint8_t>(v); });
    int64_t n = step / 2;
    return curve([&](int v) {
      const uint8_t out = clip8(static_cast<int>(n / step));
      n += h[static_cast<size_t>(v)];
      return out;
    });
  });
}

namespace {

// Rounds a sine or cosine as Python's round(x, 15) does.
double rounded(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%.15f", x);
  return std::strtod(text, nullptr);
}

int64_t fixed(double v) { return static_cast<int64_t>(std::floor(v * 65536.0 + 0.5)); }

// Applies a map by stepping through the source in 16.16 fixed point, as Pillow does.
template <class T>
Pixels<T> warped(const Pixels<T>& in, const Affine& m, T outside) {
  Pixels<T> out(in.width, in.height, in.channels, outside);
  const int64_t ax = fixed(m[0]), bx = fixed(m[1]), ay = fixed(m[3]), by = fixed(m[4]);
  int64_t x0 = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), y0 = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  for (int64_t y = 0; y < out.height; ++y, x0 += bx, y0 += by) {
    int64_t xx = x0, yy = y0;
    for (int64_t x = 0; x < out.width; ++x, xx += ax, yy += ay) {
      const int64_t sx = xx >> 16, sy = yy >> 16;
      if (sx < 0 || sx >= in.width || sy < 0 || sy >= in.height) continue;
      std::copy_n(in.row(sy) + sx * in.channels, in.channels, out.row(y) + x * in.channels);
    }
  }
  return out;
}

// Applies a map without shear and rotation, for which Pillow accumulates positions in doubles.
template <class T>
Pixels<T> shifted(const Pixels<T>& in, const Affine& m, T outside) {
  Pixels<T> out(in.width, in.height, in.channels, outside);
  const auto place = [](double v) { return v < 0 ? int64_t{-1} : static_cast<int64_t>(v); };
  double yo = m[5] + m[4] * 0.5;
  for (int64_t y = 0; y < out.height; ++y, yo += m[4]) {
    const int64_t sy = place(yo);
    double xo = m[2] + m[0] * 0.5;
    for (int64_t x = 0; x < out.width; ++x, xo += m[0]) {
      const int64_t sx = place(xo);
      if (sx < 0 || sx >= in.width || sy < 0 || sy >= in.height) continue;
      std::copy_n(in.row(sy) + sx * in.channels, in.channels, out.row(y) + x * in.channels);
    }
  }
  return out;
}

template <class T>
Pixels<T> mapped(const Pixels<T>& in, const Affine& m, T outside) {
  return m[1] == 0 && m[3] == 0 ? shifted(in, m, outside) : warped(in, m, outside);
}

// Rotates by quarter turns, counter-clockwise, which need no interpolation.
template <class T>
Pixels<T> turned(const Pixels<T>& in, int quarters) {
  const bool exchanged = quarters % 2 == 1;
  Pixels<T> out(exchanged ? in.height : in.width, exchanged ? in.width : in.height, in.channels);
  for (int64_t y = 0; y < out.height; ++y) {
    for (int64_t x = 0; x < out.width; ++x) {
      const int64_t sx = quarters == 1 ? in.width - 1 - y : quarters == 2 ? in.width - 1 - x : y;
      const int64_t sy = quarters == 1 ? x : quarters == 2 ? in.height - 1 - y : in.height - 1 - x;
      std::copy_n(in.row(sy) + sx * in.channels, in.channels, out.row(y) + x * in.channels);
    }
  }
  return out;
}

}  // namespace

Affine rotation_about_center(double degrees, int64_t width, int64_t height) {
  const double angle = -(degrees * M_PI / 180), cx = static_cast<double>(width) / 2,
               cy = static_cast<double>(height) / 2;
  Affine m = {rounded(std::cos(angle)),  rounded(std::sin(angle)), 0,
              rounded(-std::sin(angle)), rounded(std::cos(angle)), 0};
  m[2] = m[0] * -cx + m[1] * -cy + m[2] + cx;
  m[5] = m[3] * -cx + m[4] * -cy + m[5] + cy;
  return m;
}

Affine shear_and_shift(double shear_x, double shear_y, int64_t dx, int64_t dy, double cx, double cy) {
  const double sx = shear_x * M_PI / 180, sy = shear_y * M_PI / 180;
  const double a = std::cos(-sy) / std::cos(sy), b = -std::cos(-sy) * std::tan(sx) / std::cos(sy);
  const double c = std::sin(-sy) / std::cos(sy), d = -std::sin(-sy) * std::tan(sx) / std::cos(sy) + 1;
  Affine m = {d, -b, 0, -c, a, 0};
  m[2] += m[0] * (-cx - static_cast<double>(dx)) + m[1] * (-cy - static_cast<double>(dy));
  m[5] += m[3] * (-cx - static_cast<double>(dx)) + m[4] * (-cy - static_cast<double>(dy));
  m[2] += cx;
  m[5] += cy;
  return m;
}

void warp(ImageSample& s, const Affine& map) {
  s.image = mapped(s.image, map, uint8_t{0});
  if (s.mask) s.mask = mapped(*s.mask, map, kNoClass);
}

void rotate(ImageSample& s, double degrees) {
  double angle = std::fmod(degrees, 360.0);
  if (angle < 0) angle += 360;
  const bool square = s.image.width == s.image.height;
  const int quarters = angle == 90 && square ? 1 : angle == 180 ? 2 : angle == 270 && square ? 3 : 0;
  if (angle == 0) return;
  if (quarters == 0) return warp(s, rotation_about_center(angle, s.image.width, s.image.height));
  s.image = turned(s.image, quarters);
  if (s.mask) s.mask = turned(*s.mask, quarters);
}

}  // namespace amp
