// The arguments of the kernels of a fused attention node: shapes, the problem, and whether tensor cores compute it.
#pragma once

#include "backend/cuda/device.h"
#include "ops/cuda/attention.cuh"

namespace amp::cuda {

constexpr int kWidest = 128;  // largest head width of the tensor cores' kernels

inline Dims dims_of(const KernelArgs& a, size_t i) { return a.has(i) ? a.in[i].dims : Dims{}; }

struct AttentionTask {
  AttentionForm f;
  AttentionProblem p;
  DType type = DType::f32;  // if tiled: type of all operands
  bool tiled = false;

  explicit AttentionTask(const KernelArgs& a)
      : f(attention_form(a.attrs(), a.in[0].dims, dims_of(a, 1), dims_of(a, 2), dims_of(a, 3), dims_of(a, 4))) {
    if (in_double(a)) no_fp64(a);
    const int64_t blocks = (f.longest_query() + f.longest_key() + 128) / 64 * std::max<int64_t>(f.units(), 1);
    constexpr int64_t kLimit = (int64_t{1} << 31) - 1;
    if (f.longest_query() > kLimit / 2 || f.longest_key() > kLimit / 2 || f.width > kLimit / 2 ||
        f.value_width > kLimit / 2 || blocks * ((std::max(f.width, f.value_width) + 63) / 64 + 1) > kLimit)
      fail(Exit::unsupported, "E_CUDA_SIZE", cat(a.node.op->name, ": too large for a CUDA kernel"));
    p.q = f.q, p.k = f.k, p.v = f.v, p.y = f.y;
    p.queries = f.queries, p.keys = f.keys;
    p.heads = static_cast<int>(f.heads), p.width = static_cast<int>(f.width),
    p.value_width = static_cast<int>(f.value_width);
    p.scale = static_cast<float>(f.scale), p.fill = static_cast<float>(f.fill);
    p.empty_rows_zero = f.empty_rows_zero;
    if (a.has(3)) p.mask = a.in[3];
    std::copy_n(f.mask, 4, p.mask_stride);
    if (a.has(4)) p.offsets = static_cast<const int64_t*>(a.in[4].data);
    p.sequences = f.sequences, p.longest = f.max_len;
    p.state = a.state;
    p.threshold = f.dropout.threshold, p.site = f.dropout.site, p.keep = static_cast<float>(f.dropout.scale);
    const int64_t cells = f.batch * f.heads * f.queries * f.keys;
    p.per_sample = f.sequences || f.samples == f.batch || cells == 0 ? 0 : cells / f.samples;
    p.in_fours = f.longest_key() % 4 == 0 && p.per_sample % 4 == 0;

    type = a.in[0].dtype;
    const auto same = [&](size_t i) { return f.packed || a.in[i].dtype == type; };
    const auto fits = [](const AttentionForm::Strides& s) {
      return s.offset % 8 == 0 && s.batch % 8 == 0 && s.token % 8 == 0 && s.head % 8 == 0;
    };
    tiled = is_low(type) && same(1) && same(2) && f.width % 8 == 0 && f.value_width % 8 == 0 && f.width > 0 &&
            f.value_width > 0 && std::max(f.width, f.value_width) <= kWidest && fits(f.q) && fits(f.k) && fits(f.v) &&
            fits(f.y);
  }
  int query_tiles() const { return static_cast<int>((f.longest_query() + 63) / 64); }
  int key_tiles() const { return static_cast<int>((f.longest_key() + 63) / 64); }
  int parts(int64_t columns) const { return static_cast<int>(std::max<int64_t>((columns + 63) / 64, 1)); }
};

}  // namespace amp::cuda
