// Builds the plans of convolutions over channels (which taps and positions each output reads), and packs images
// channels last. A stride is handled by the plan: forward reads strided positions, the gradient to x has one part per
// phase of the stride.

#include "backend/cpu/conv/conv_channels_pack.h"

namespace amp {

namespace {

using namespace conv_tiles;

// Returns the distance of two pixels in a packed image, in floats. It is not a multiple of 1 KiB, because addresses
// that are multiples of 1 KiB apart map to few sets of the first-level cache.
int64_t pitch_of(int64_t channels) { return channels % 256 == 0 ? channels + kLane : channels; }

// Iterates over the positions of a box in row-major order.
struct BoxWalk {
  std::array<int64_t, 3> extent, at;

  BoxWalk(const std::array<int64_t, 3>& of, int64_t first)
      : extent(of), at{first / (of[1] * of[2]), first / of[2] % of[1], first % of[2]} {}
  // Advances to the next position. After the last one, restarts and returns true.
  bool next() {
    if (++at[2] < extent[2]) return false;
    at[2] = 0;
    if (++at[1] < extent[1]) return false;
    at[1] = 0;
    if (++at[0] < extent[0]) return false;
    at[0] = 0;
    return true;
  }
};

}  // namespace

ChannelPlan forward_channels(const ConvShape& s) {
  ChannelPlan plan;
  plan.channels = s.c, plan.pitch = pitch_of(s.c);
  ChannelPlan::Part part;
  for (size_t i = 0; i < 3; ++i) {
    const WindowAxis& a = s.window[i];
    plan.axis[i] = {a.in, a.pad, (a.out - 1) * a.stride + a.reach(), a.stride};
    part.start[i] = 0, part.count[i] = a.out, part.step[i] = 1;
  }
  const auto& [d, h, w] = s.window;
  for (int64_t kd = 0; kd < d.kernel; ++kd) {
    for (int64_t kh = 0; kh < h.kernel; ++kh) {
      for (int64_t kw = 0; kw < w.kernel; ++kw) {
        part.tap.push_back((kd * h.kernel + kh) * w.kernel + kw);
        part.offset.push_back(
            ((kd * d.dilation * plan.axis[1].length + kh * h.dilation) * plan.axis[2].length + kw * w.dilation) *
            plan.pitch);
      }
    }
  }
  plan.parts.push_back(std::move(part));
  return plan;
}

ChannelPlan grad_x_channels(const ConvShape& s) {
  const ShiftPlan shifts = grad_x_plan(s.window);
  ChannelPlan plan;
  plan.channels = s.m, plan.pitch = pitch_of(s.m);
  for (size_t i = 0; i < 3; ++i)
    plan.axis[i] = {shifts.axis[i].source, shifts.axis[i].origin, shifts.axis[i].length, 1};
  for (const ShiftPlan::Part& from : shifts.parts) {
    ChannelPlan::Part part;
    part.start = from.start, part.count = from.count, part.step = from.step, part.tap = from.tap;
    for (const int64_t position : from.offset) part.offset.push_back(position * plan.pitch);
    plan.parts.push_back(std::move(part));
  }
  return plan;
}

bool conv_channels_gain(const ConvShape& s) { return s.n > 0 && s.c >= kLane && s.m >= kLane; }

namespace conv_tiles {

namespace {

// The channels of an image, `size` elements apart.
struct FloatRows {
  const float* at;
  int64_t size;

  FloatRows from(int64_t element) const { return {at + element, size}; }
  // Transposes elements [j, j + n), at most 16, of `rows` channels from c on. to(i) receives the channels of pixel j +
  // i.
  template <int Lanes, class To>
  AMP_INLINE inline void transpose(int64_t c, int64_t rows, int64_t j, int64_t n, const To& to) const {
    if (rows == 16) return transpose_block<Lanes>(at + c * size + j, size, 16, n, to);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = 0; k < rows; ++k) to(i)[k] = at[(c + k) * size + j + i];
    }
  }
};
// Pairs of rows. The second row starts `other` elements after the first; only the first `paired` pairs have a
// second row.
struct PairRows {
  const BFloat16* at;
  int64_t size, other, paired;

  PairRows from(int64_t element) const { return {at + element, size, other, paired}; }
  template <int Lanes, class To>
  AMP_INLINE inline void transpose(int64_t c, int64_t rows, int64_t j, int64_t n, const To& to) const {
    alignas(64) float pairs[16][16], square[16][16];
    for (int64_t k = 0; k < rows; ++k) {
      const BFloat16* low = at + (c + k) * size + j;
      bf16_pairs::zip<Lanes>(low, c + k < paired ? low + other : nullptr, n, pairs[k]);
    }
    if (rows == 16 && n == 16) return transpose_block<Lanes>(pairs[0], 16, 16, 16, to);
    transpose_block<Lanes>(pairs[0], 16, rows, 16, [&](int64_t i) AMP_INLINE { return square[i]; });
    for (int64_t i = 0; i < n; ++i) std::copy_n(square[i], rows, to(i));
  }
};

template <int Lanes, class Rows>
AMP_INLINE inline void pack_pixels(const ChannelPlan& plan, const Rows& rows, float* depth, int64_t from_row,
                                   int64_t to_row) {
  const auto& [d, h, w] = plan.axis;
  float trash[16];
  const int64_t end = to_row * w.source;
  BoxWalk walk({1, h.source, w.source}, from_row * w.source);
  for (int64_t j = from_row * w.source; j < end; j += 16) {
    const int64_t n = std::min<int64_t>(16, end - j);
    float* to[16];
    for (int64_t i = 0; i < n; ++i, walk.next()) {
      const int64_t at = walk.at[2] + w.origin;
      to[i] = at < w.length ? depth + ((walk.at[1] + h.origin) * w.length + at) * plan.pitch : nullptr;
    }
    for (int64_t c = 0; c < plan.channels; c += 16) {
      rows.template transpose<Lanes>(c, std::min<int64_t>(16, plan.channels - c), j, n,
                                     [&](int64_t i) AMP_INLINE { return to[i] ? to[i] + c : trash; });
    }
  }
}

template <class Rows>
void pack_rows(const ChannelPlan& plan, const Rows& source, float* to, int64_t begin, int64_t end) {
  const auto& [d, h, w] = plan.axis;
  const int64_t row_size = w.length * plan.pitch;
  const int64_t first = w.origin, last = std::min(w.length, w.origin + w.source);
  for (int64_t row = begin; row < end;) {
    const int64_t pd = row / h.length, id = pd - d.origin, stop = std::min(end, (pd + 1) * h.length);
    const bool inside = id >= 0 && id < d.source;
    const int64_t h0 = std::clamp<int64_t>(row - pd * h.length - h.origin, 0, h.source),
                  h1 = inside ? std::clamp<int64_t>(stop - pd * h.length - h.origin, 0, h.source) : h0;
    for (; row < stop; ++row) {
      float* at = to + row * row_size;
      const int64_t ih = row - pd * h.length - h.origin;
      if (!inside || ih < 0 || ih >= h.source) {
        std::fill_n(at, row_size, 0.0f);
      } else {
        std::fill_n(at, first * plan.pitch, 0.0f);
        std::fill_n(at + last * plan.pitch, (w.length - last) * plan.pitch, 0.0f);
      }
    }
    if (h1 <= h0) continue;
    const Rows from = source.from(id * h.source * w.source);
    float* depth = to + pd * h.length * row_size;
    at_level([&]<int Lanes>() AMP_INLINE { pack_pixels<Lanes>(plan, from, depth, h0, h1); });
  }
}

}  // namespace

int64_t images_together(const ChannelPlan& plan, int64_t images, int64_t groups) {
  return groups > 1 ? 1 : std::clamp<int64_t>(kImages / plan.image_size(), 1, images);
}

void place_pixels(const ChannelPlan& plan, const ChannelPlan::Part& part, int64_t first, int64_t n, int64_t* base) {
  const auto& [d, h, w] = plan.axis;
  int64_t image = first / part.pixels() * plan.image_size();
  BoxWalk walk(part.count, first % part.pixels());
  for (int64_t i = 0; i < n; ++i) {
    const auto [z, y, x] = walk.at;
    base[i] = image + ((z * d.stride * h.length + y * h.stride) * w.length + x * w.stride) * plan.pitch;
    if (walk.next()) image += plan.image_size();
  }
}

void place_outputs(const ChannelPlan::Part& part, const std::array<int64_t, 3>& out, int64_t image_size, int64_t first,
                   int64_t n, int64_t* to) {
  int64_t image = first / part.pixels() * image_size;
  BoxWalk walk(part.count, first % part.pixels());
  for (int64_t i = 0; i < n; ++i) {
    const auto [z, y, x] = walk.at;
    to[i] = image + ((part.start[0] + z * part.step[0]) * out[1] + part.start[1] + y * part.step[1]) * out[2] +
            part.start[2] + x * part.step[2];
    if (walk.next()) image += image_size;
  }
}

void pack_image_rows(const ChannelPlan& plan, const float* source, float* to, int64_t begin, int64_t end) {
  pack_rows(plan, FloatRows{source, plan.source_size()}, to, begin, end);
}

void pack_images(const ChannelPlan& plan, const ImageSource& source, int64_t images, int64_t first, int64_t count,
                 float* to) {
  const int64_t rows = plan.axis[0].length * plan.axis[1].length, size = plan.source_size();
  const int64_t pieces = std::clamp<int64_t>(16 / std::max<int64_t>(count, 1), 1, rows);
  parallel_for(count * pieces, [&](int64_t i) {
    const int64_t image = first + i / pieces, piece = i % pieces;
    const auto pack = [&](const auto& of) {
      pack_rows(plan, of, to + i / pieces * plan.image_size(), rows * piece / pieces, rows * (piece + 1) / pieces);
    };
    const int64_t image_size = source.channels * size;
    if (source.elements == Elements::floats)
      return pack(FloatRows{static_cast<const float*>(source.data.at(image * image_size)), size});
    const bool by_image = source.elements == Elements::image_pairs;
    const auto* at = static_cast<const BFloat16*>(source.data.at((by_image ? 2 : 1) * image * image_size));
    if (by_image) return pack(PairRows{at, size, image_size, 2 * image + 1 < images ? source.channels : 0});
    pack(PairRows{at, 2 * size, size, source.channels / 2});
  });
  std::fill_n(to + count * plan.image_size(), kSlack, 0.0f);
}

}  // namespace conv_tiles

}  // namespace amp
