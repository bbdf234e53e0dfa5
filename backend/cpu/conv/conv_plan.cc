// Builds the shift plans of conv_direct.h. Each axis is planned first: the phases of the stride and the taps that read
// them. Then the plans of the three axes are combined. The gradient to x has one part per residue of the stride.

#include <map>

#include "backend/cpu/conv/conv_direct.h"

namespace amp {

namespace {

struct Tap {
  int64_t tap, phase, shift;
};
struct AxisPart {
  int64_t start, count, step;
  std::vector<Tap> taps;
};
struct AxisPlan {
  ShiftPlan::Axis source;
  std::vector<AxisPart> parts;
};

AxisPlan forward_axis(const WindowAxis& a) {
  AxisPlan plan{{a.in, a.stride, a.pad, a.out}, {{0, a.out, 1, {}}}};
  for (int64_t k = 0; k < a.kernel; ++k) {
    const int64_t at = k * a.dilation;
    plan.parts[0].taps.push_back({k, at % a.stride, at / a.stride});
    plan.source.length = std::max(plan.source.length, a.out + at / a.stride);
  }
  return plan;
}

// Plans one axis of the gradient to x: dx[i] is the sum of w[k] * dy[(i + pad - k * dilation) / stride] over the taps
// k for which the division has no remainder.
AxisPlan grad_x_axis(const WindowAxis& a) {
  AxisPlan plan{{a.out, 1, 0, 1}, {}};
  for (int64_t r = 0; r < a.stride; ++r) {
    // This part writes dx[i] for i = q * stride + r - pad with q >= first.
    const int64_t first = std::max<int64_t>(0, (a.pad - r + a.stride - 1) / a.stride);
    const int64_t start = first * a.stride + r - a.pad;
    if (start >= a.in) continue;
    AxisPart part{start, (a.in - start + a.stride - 1) / a.stride, a.stride, {}};
    for (int64_t k = 0; k < a.kernel; ++k) {
      if ((k * a.dilation) % a.stride == r) part.taps.push_back({k, 0, first - k * a.dilation / a.stride});
    }
    plan.parts.push_back(std::move(part));
  }
  int64_t least = 0;
  for (const AxisPart& p : plan.parts) {
    for (const Tap& t : p.taps) least = std::min(least, t.shift);
  }
  plan.source.origin = -least;
  for (AxisPart& p : plan.parts) {
    for (Tap& t : p.taps) {
      t.shift -= least;
      plan.source.length = std::max(plan.source.length, p.count + t.shift);
    }
  }
  return plan;
}

ShiftPlan combine(const std::array<AxisPlan, 3>& axes) {
  ShiftPlan plan;
  for (size_t i = 0; i < 3; ++i) plan.axis[i] = axes[i].source;
  std::map<std::array<int64_t, 3>, int64_t> index;
  std::array<int64_t, 3> kernel{};
  for (size_t i = 0; i < 3; ++i) {
    for (const AxisPart& p : axes[i].parts) {
      for (const Tap& t : p.taps) kernel[i] = std::max(kernel[i], t.tap + 1);
    }
  }
  for (const AxisPart& d : axes[0].parts) {
    for (const AxisPart& h : axes[1].parts) {
      for (const AxisPart& w : axes[2].parts) {
        ShiftPlan::Part part;
        part.start = {d.start, h.start, w.start};
        part.count = {d.count, h.count, w.count};
        part.step = {d.step, h.step, w.step};
        for (const Tap& td : d.taps) {
          for (const Tap& th : h.taps) {
            for (const Tap& tw : w.taps) {
              const auto [it, fresh] =
                  index.emplace(std::array{td.phase, th.phase, tw.phase}, static_cast<int64_t>(index.size()));
              if (fresh) plan.planes.push_back(it->first);
              const int64_t shift = (td.shift * plan.axis[1].length + th.shift) * plan.axis[2].length + tw.shift;
              part.tap.push_back((td.tap * kernel[1] + th.tap) * kernel[2] + tw.tap);
              part.offset.push_back(static_cast<int32_t>(it->second * plan.plane_size() + shift));
            }
          }
        }
        plan.parts.push_back(std::move(part));
      }
    }
  }
  return plan;
}

}  // namespace

ShiftPlan forward_plan(const SlidingWindow& w) {
  return combine({forward_axis(w[0]), forward_axis(w[1]), forward_axis(w[2])});
}
ShiftPlan grad_x_plan(const SlidingWindow& w) {
  return combine({grad_x_axis(w[0]), grad_x_axis(w[1]), grad_x_axis(w[2])});
}

bool conv_direct_fits(const ConvShape& s) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  return s.c * forward_plan(s.window).channel_size() < kLimit && s.m * grad_x_plan(s.window).channel_size() < kLimit;
}

}  // namespace amp
