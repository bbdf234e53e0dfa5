// Decides when convolutions are vectorized over images, and packs their operands. The decision compares two estimates:
// multiply-adds inside the image plus transposes for conv_batch, and multiply-adds for conv_direct.
#include "backend/cpu/conv/conv_batch.h"
#include "backend/cpu/conv/conv_batch_lanes.h"
#include "backend/cpu/conv/conv_direct.h"
#include "backend/cpu/gemm/block_transpose.h"

namespace amp {

namespace conv_batch_lanes {

void Lanes::pack(const float* from, float* to) const {
  const int64_t ld = groups * channels * pixels;
  parallel_for(groups * channels, [&](int64_t plane) {
    float* const out = to + plane / channels * of_group() + plane % channels * lanes;
    const float* const in = from + plane * pixels;
    cpu::at_level([&]<int Level>() AMP_INLINE {
      for (int64_t i = 0; i < lanes; i += 16) {
        by_sixteen(pixels, [&](int64_t p, int64_t columns) AMP_INLINE {
          cpu::transpose_block<Level>(in + i * ld + p, ld, std::max<int64_t>(images - i, 0), columns,
                                      [&](int64_t j) AMP_INLINE { return out + (p + j) * pixel_step() + i; });
        });
      }
    });
  });
}

}  // namespace conv_batch_lanes

using conv_batch_lanes::lanes_of;

namespace {

// ---- estimated costs, in multiply-adds per vector lane

// Returns the number of pairs of an output pixel and a tap inside the image.
int64_t pairs_inside(const ConvShape& s) {
  int64_t pairs = 1;
  for (const WindowAxis& a : s.window) {
    int64_t of_axis = 0;
    for (int64_t k = 0; k < a.kernel; ++k) of_axis += a.end(k) - a.begin(k);
    pairs *= of_axis;
  }
  return pairs;
}
// Returns the estimated cost of conv_batch. Transposing an element costs 16 multiply-adds (measured: AVX-512, fp32).
double batch_cost(const ConvShape& s) {
  const auto group = static_cast<double>(pairs_inside(s) * s.c * s.m),
             moved = static_cast<double>(s.c * s.in_size() + s.m * s.out_size());
  return static_cast<double>(s.groups * lanes_of(s)) * (group + 16 * moved);
}
double direct_cost(const ConvShape& s, const ShiftPlan& plan) {
  int64_t positions = 0;
  for (const ShiftPlan::Part& p : plan.parts)
    positions += p.count[0] * plan.flat(p) * static_cast<int64_t>(p.tap.size());
  return static_cast<double>(s.n * s.groups * s.c * s.m * positions);
}

}  // namespace

// Images must be small, because the plan stores one entry for each pair of pixel and tap. At most a quarter of the
// lanes may be empty.
bool conv_batch_fits(const ConvShape& s) {
  return s.n > 0 && 4 * s.n >= 3 * lanes_of(s) && std::max(s.in_size(), s.out_size()) * s.taps() <= int64_t{1} << 18;
}

// Returns true if the images fit into the second-level cache, or if each loaded element is used at least kTimes times.
// Otherwise memory bandwidth would limit the speed, because each panel of channels reads all images.
static bool reuses(const ConvShape& s) {
  constexpr int64_t kCached = (int64_t{512} << 10) / 4, kPanel = 6, kTimes = 30;
  const int64_t pixels = std::max(s.in_size(), s.out_size());
  return pixels * std::max(s.c, s.m) * lanes_of(s) <= kCached || pairs_inside(s) * kPanel >= kTimes * pixels;
}

bool conv_batch_gains(const ConvShape& s) {
  return conv_batch_fits(s) && reuses(s) && batch_cost(s) < 1.2 * direct_cost(s, forward_plan(s.window));
}
bool conv_batch_grad_x_gains(const ConvShape& s) {
  return conv_batch_fits(s) && reuses(s) && batch_cost(s) < 1.2 * direct_cost(s, grad_x_plan(s.window));
}

// Requires at least 4 input channels: with fewer, a tile executes about as many loads as multiplications.
bool conv_batch_grad_w_gains(const ConvShape& s) {
  return conv_batch_fits(s) && reuses(s) && s.c >= 4 && batch_cost(s) < 1.8 * direct_cost(s, forward_plan(s.window));
}

}  // namespace amp
