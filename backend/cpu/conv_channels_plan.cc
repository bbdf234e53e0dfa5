#include "backend/cpu/conv_channels_pack.h"

namespace amp {

namespace {

using namespace conv_tiles;

// Addresses 1 KiB and more apart fall into few sets of the nearest cache.
int64_t pitch_of(int64_t channels) { return channels % 256 == 0 ? channels + kLane : channels; }

// position: of every tap of the part, in positions of the padded box.
void make_runs(ChannelPlan::Part& part, const std::vector<int64_t>& position, int64_t channels, int64_t pitch) {
  for (size_t i = 0; i < position.size(); ++i) {
    const int64_t offset = position[i] * pitch, row = static_cast<int64_t>(i) * channels;
    if (!part.runs.empty() && part.runs.back().offset + part.runs.back().length == offset)
      part.runs.back().length += channels;
    else
      part.runs.push_back({offset, channels, row});
  }
}

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
  std::vector<int64_t> position;
  const auto& [d, h, w] = s.window;
  for (int64_t kd = 0; kd < d.kernel; ++kd) {
    for (int64_t kh = 0; kh < h.kernel; ++kh) {
      for (int64_t kw = 0; kw < w.kernel; ++kw) {
        part.tap.push_back((kd * h.kernel + kh) * w.kernel + kw);
        position.push_back((kd * d.dilation * plan.axis[1].length + kh * h.dilation) * plan.axis[2].length +
                           kw * w.dilation);
      }
    }
  }
  make_runs(part, position, plan.channels, plan.pitch);
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
    make_runs(part, {from.offset.begin(), from.offset.end()}, plan.channels, plan.pitch);
    plan.parts.push_back(std::move(part));
  }
  return plan;
}

bool conv_channels_gain(const ConvShape& s) { return s.n > 0 && s.c >= kLane && s.m >= kLane; }

namespace conv_tiles {

namespace {

template <int Lanes>
AMP_INLINE inline void pack_pixels(const ChannelPlan& plan, const float* source, float* depth, int64_t from_row,
                                   int64_t to_row) {
  const auto& [d, h, w] = plan.axis;
  float trash[16];
  const int64_t end = to_row * w.source, size = plan.source_size();
  BoxWalk walk({1, h.source, w.source}, from_row * w.source);
  for (int64_t j = from_row * w.source; j < end; j += 16) {
    const int64_t n = std::min<int64_t>(16, end - j);
    float* to[16];
    for (int64_t i = 0; i < n; ++i, walk.next()) {
      const int64_t at = walk.at[2] + w.origin;
      to[i] = at < w.length ? depth + ((walk.at[1] + h.origin) * w.length + at) * plan.pitch : nullptr;
    }
    int64_t c = 0;
    for (; c + 16 <= plan.channels; c += 16) {
      transpose_block<Lanes>(source + c * size + j, size, 16, n,
                             [&](int64_t i) AMP_INLINE { return to[i] ? to[i] + c : trash; });
    }
    for (int64_t i = 0; i < n && c < plan.channels; ++i) {
      for (int64_t k = c; k < plan.channels && to[i]; ++k) to[i][k] = source[k * size + j + i];
    }
  }
}

}  // namespace

void pack_image_rows(const ChannelPlan& plan, const float* source, float* to, int64_t begin, int64_t end) {
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
    const float* from = source + id * h.source * w.source;
    float* depth = to + pd * h.length * row_size;
    at_level([&]<int Lanes>() AMP_INLINE { pack_pixels<Lanes>(plan, from, depth, h0, h1); });
  }
}

void pack_images(const ChannelPlan& plan, const float* source, int64_t count, float* to) {
  const int64_t rows = plan.axis[0].length * plan.axis[1].length;
  const int64_t pieces = std::clamp<int64_t>(16 / std::max<int64_t>(count, 1), 1, rows);
  parallel_for(count * pieces, [&](int64_t i) {
    const int64_t image = i / pieces, piece = i % pieces;
    pack_image_rows(plan, source + image * plan.channels * plan.source_size(), to + image * plan.image_size(),
                    rows * piece / pieces, rows * (piece + 1) / pieces);
  });
  std::fill_n(to + count * plan.image_size(), kSlack, 0.0f);
}

}  // namespace conv_tiles

}  // namespace amp
