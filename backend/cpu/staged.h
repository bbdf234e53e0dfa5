// Kernels that hand whole tensors to a library in fp32 stage 16-bit operands through the node's workspace.
#pragma once

#include "backend/kernel.h"
#include "backend/parallel.h"

namespace amp::cpu {

inline int64_t staged_bytes(const Value& v) { return is_low(v.dtype) ? (numel(v.dims) * 4 + 63) / 64 * 64 : 0; }

// Workspace that a node needs so that all its 16-bit inputs and outputs have fp32 images.
inline int64_t staging_workspace(const Graph& g, const Node& n) {
  int64_t bytes = 0;
  for (const ValueId v : n.in) bytes += v ? staged_bytes(g.value(v)) : 0;
  for (const ValueId v : n.out) bytes += staged_bytes(g.value(v));
  return bytes;
}

// The fp32 (or fp64) images of a node's operands; fetch() before the work, store() after it.
class Staging {
 public:
  explicit Staging(const KernelArgs& a) {
    char* at = static_cast<char*>(a.workspace);
    const auto image = [&](const Tensor& t) {
      if (!t.data || !is_low(t.dtype)) return t;
      const Tensor f{at, DType::f32, t.dims};
      at += (t.numel() * 4 + 63) / 64 * 64;
      return f;
    };
    for (const Tensor& t : a.in) {
      in.push_back(image(t));
      if (in.back().data != t.data) fetch_.push_back({t, in.back()});
    }
    for (const Tensor& t : a.out) {
      out.push_back(image(t));
      if (out.back().data != t.data) store_.push_back({out.back(), t});
    }
  }
  void fetch() const { copy(fetch_); }
  void store() const { copy(store_); }

  std::vector<Tensor> in, out;

 private:
  using Pairs = std::vector<std::pair<Tensor, Tensor>>;
  static void copy(const Pairs& pairs) {
    for (const auto& [from, to] : pairs) {
      parallel_ranges(from.numel(), 32768, [&, f = &from, t = &to](int64_t b, int64_t e) {
        convert(f->dtype, static_cast<const char*>(f->data) + b * size_of(f->dtype), t->dtype, static_cast<char*>(t->data) + b * size_of(t->dtype), e - b);
      });
    }
  }
  Pairs fetch_, store_;
};

}  // namespace amp::cpu
