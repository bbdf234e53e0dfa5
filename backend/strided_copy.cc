#include "backend/strided_copy.h"

#include <cstring>

#include "backend/parallel.h"

namespace amp {

CopyWalk copy_walk(const Dims& dims, const Dims& from, const Dims& to) {
  CopyWalk w;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (!w.n.empty() && w.from.back() == from[d] * dims[d] && w.to.back() == to[d] * dims[d]) {
      w.n.back() *= dims[d];
      w.from.back() = from[d];
      w.to.back() = to[d];
    } else {
      w.n.push_back(dims[d]);
      w.from.push_back(from[d]);
      w.to.push_back(to[d]);
    }
  }
  if (w.n.empty()) {
    w.n = {1};
    w.from = w.to = {1};
  }
  return w;
}

namespace {

template <class T>
Kernel typed(const Tensor& src, const Region& from, const Tensor& dst, const Region& to, const Dims& dims) {
  if (numel(dims) == 0) return [] {};
  const CopyWalk w = copy_walk(dims, from.strides, to.strides);
  const size_t last = w.n.size() - 1;
  const int64_t inner = w.n[last], s = w.from[last], t = w.to[last];
  int64_t outer = 1;
  for (size_t d = 0; d < last; ++d) outer *= w.n[d];
  const T* x = static_cast<const T*>(src.data) + from.offset;
  T* y = static_cast<T*>(dst.data) + to.offset;
  return [=] {
    parallel_ranges(outer, 32768 / inner + 1, [&](int64_t b, int64_t e) {
      for (int64_t row = b; row < e; ++row) {
        int64_t o = row, xo = 0, yo = 0;
        for (size_t d = last; d-- > 0;) {
          const int64_t i = o % w.n[d];
          o /= w.n[d];
          xo += i * w.from[d];
          yo += i * w.to[d];
        }
        if (s == 1 && t == 1) {
          std::memcpy(y + yo, x + xo, static_cast<size_t>(inner) * sizeof(T));
        } else {
          for (int64_t i = 0; i < inner; ++i) y[yo + i * t] = x[xo + i * s];
        }
      }
    });
  };
}

}  // namespace

Kernel strided_copy(const Tensor& src, const Region& from, const Tensor& dst, const Region& to, const Dims& dims) {
  check(src.dtype == dst.dtype, "strided_copy does not convert");
  switch (size_of(src.dtype)) {
    case 1:
      return typed<uint8_t>(src, from, dst, to, dims);
    case 2:
      return typed<uint16_t>(src, from, dst, to, dims);
    case 4:
      return typed<uint32_t>(src, from, dst, to, dims);
    default:
      return typed<uint64_t>(src, from, dst, to, dims);
  }
}

}  // namespace amp
