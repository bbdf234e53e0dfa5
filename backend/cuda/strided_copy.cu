// Copies between strided regions. Axes are merged first. Each thread copies units of the largest size that the
// addresses and strides allow, at most 16 bytes. Transposing copies go through square tiles in shared memory. The
// driver does large contiguous copies.
#include "backend/cuda/divide.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"
#include "backend/cuda/strided_copy.h"

namespace amp::cuda {

namespace strided_copy_detail {

// The axes of a copy, outermost first, with their strides in the source (from) and in the destination (to).
struct CopyAxes {
  int rank = 0;
  Divisor extent[kMaxRank];
  int64_t from[kMaxRank] = {}, to[kMaxRank] = {};

  void add(int64_t n, int64_t from_stride, int64_t to_stride) {
    if (rank == kMaxRank)
      fail(Exit::unsupported, "E_CUDA_SIZE",
           cat("a CUDA kernel copies along at most ", kMaxRank, " axes that cannot be merged"));
    extent[rank] = Divisor(n);
    from[rank] = from_stride;
    to[rank++] = to_stride;
  }
  DEV void locate(int64_t i, int64_t& x, int64_t& y) const {
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t at = d ? extent[d].take(i) : i;
      x += at * from[d];
      y += at * to[d];
    }
  }
};

// A thread reads several elements before it writes any, to keep that many reads in flight.
template <class T>
struct Copy {
  static constexpr int kMany = sizeof(T) >= 8 ? 2 : 4;
  const T* x;
  T* y;
  CopyAxes axes;
  int64_t n;
  DEV void operator()() const {
    const int64_t step = global_threads();
    for (int64_t first = global_index(); first < n; first += kMany * step) {
      T v[kMany];
      int64_t to[kMany];
      for (int k = 0; k < kMany; ++k) {
        const int64_t i = first + k * step;
        int64_t from = 0;
        to[k] = 0;
        if (i >= n) continue;
        axes.locate(i, from, to[k]);
        v[k] = x[from];
      }
      for (int k = 0; k < kMany; ++k) {
        if (first + k * step < n) y[to[k]] = v[k];
      }
    }
  }
};

// A copy that exchanges axes: axis a is contiguous in the source, axis b in the destination. Square tiles of both axes
// go through shared memory, so that reads and writes coalesce. The odd pitch (in words, or in elements of 8 bytes)
// distributes a column over the banks.
template <class T, int kSide>
struct Transposition {
  static constexpr bool cooperative = true;
  static constexpr int kThreads = 256, kWarps = kThreads / 32, kRows = kSide / kWarps, kColumns = kSide / 32;
  static constexpr int kPitch = kSide + (sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1);

  const T* x;
  T* y;
  // a, b: extents of these axes; a_stride: a's stride in the destination; b_stride: b's stride in the source.
  int64_t a, b, a_stride, b_stride;
  Divisor squares_a, squares_b;  // number of square tiles along each axis
  CopyAxes outer;
  int64_t squares;

  DEV void operator()() const {
    T* const square = shared_memory<T>();
    for (int64_t s = block_index(); s < squares; s += grid_blocks()) {
      int64_t o = s, from = 0, to = 0;
      const int64_t b0 = squares_b.take(o) * kSide, a0 = squares_a.take(o) * kSide;
      outer.locate(o, from, to);
      T v[kRows][kColumns];
      for (int r = 0; r < kRows; ++r) {
        const int64_t at_b = b0 + warp() + r * kWarps;
        for (int c = 0; c < kColumns; ++c) {
          const int64_t at_a = a0 + lane() + c * 32;
          if (at_b < b && at_a < a) v[r][c] = x[from + at_b * b_stride + at_a];
        }
      }
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < kColumns; ++c) square[(warp() + r * kWarps) * kPitch + lane() + c * 32] = v[r][c];
      }
      sync_threads();
      for (int r = warp(); r < kSide; r += kWarps) {
        for (int c = lane(); c < kSide; c += 32) {
          if (a0 + r < a && b0 + c < b) y[to + (a0 + r) * a_stride + b0 + c] = square[c * kPitch + r];
        }
      }
      sync_threads();
    }
  }
};

template <class T, int kSide>
Kernel transposition(CudaDevice& d, const T* x, T* y, const CopyWalk& w, size_t a) {
  const size_t b = w.n.size() - 1;
  using K = Transposition<T, kSide>;
  K k{x,
      y,
      w.n[a],
      w.n[b],
      w.to[a],
      w.from[b],
      Divisor((w.n[a] + kSide - 1) / kSide),
      Divisor((w.n[b] + kSide - 1) / kSide),
      {},
      0};
  k.squares = k.squares_a.value() * k.squares_b.value();
  for (size_t i = 0; i < b; ++i) {
    if (i == a) continue;
    k.outer.add(w.n[i], w.from[i], w.to[i]);
    k.squares *= w.n[i];
  }
  const Grid grid{std::min<int64_t>(k.squares, int64_t{1} << 30), K::kThreads,
                  int64_t{kSide} * K::kPitch * static_cast<int64_t>(sizeof(T))};
  return [&d, grid, k] { launch(d, grid, k); };
}

// Returns axis a of a Transposition: the axis that is contiguous in the source if the last axis is contiguous in the
// destination. Returns the last axis if there is no such axis, or if squares would be mostly empty.
size_t crossing_axis(const CopyWalk& w) {
  const size_t last = w.n.size() - 1;
  constexpr int64_t kLeast = 12;
  if (w.to[last] != 1 || w.from[last] == 1 || w.from[last] == 0 || w.n[last] < kLeast) return last;
  for (size_t i = 0; i < last; ++i) {
    if (w.from[i] == 1 && w.n[i] >= kLeast) return i;
  }
  return last;
}

template <class T>
Kernel plain(CudaDevice& d, const void* x, void* y, const CopyWalk& w) {
  Copy<T> body{static_cast<const T*>(x), static_cast<T*>(y), {}, 1};
  for (size_t i = 0; i < w.n.size(); ++i) {
    body.axes.add(w.n[i], w.from[i], w.to[i]);
    body.n *= w.n[i];
  }
  const Grid grid = loop_grid(d, (body.n + Copy<T>::kMany - 1) / Copy<T>::kMany);
  return [&d, grid, body] { launch(d, grid, body); };
}

constexpr int64_t kByDriver = 1 << 20;  // contiguous copies of this many bytes or more are done by the driver

struct alignas(16) Sixteen {
  uint64_t v[2];
};

template <class T>
Kernel typed(CudaDevice& d, const char* x, char* y, const CopyWalk& w) {
  const size_t a = crossing_axis(w), last = w.n.size() - 1;
  if (a == last) return plain<T>(d, x, y, w);
  if constexpr (sizeof(T) <= 2) {
    if (std::min(w.n[a], w.n[last]) > 32)
      return transposition<T, 64>(d, reinterpret_cast<const T*>(x), reinterpret_cast<T*>(y), w, a);
  }
  return transposition<T, 32>(d, reinterpret_cast<const T*>(x), reinterpret_cast<T*>(y), w, a);
}

// Returns the number of bytes that a thread copies at once: the largest power of two, at most 16, that divides both
// addresses, all strides and the length of the contiguous runs. Returns `size`, the size of an element, if there are no
// contiguous runs.
int64_t unit_of(const char* x, const char* y, int64_t size, const CopyWalk& w) {
  const size_t last = w.n.size() - 1;
  if (w.from[last] != 1 || w.to[last] != 1) return size;
  uint64_t bits =
      reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y) | static_cast<uint64_t>(w.n[last] * size) | 16;
  for (size_t i = 0; i < last; ++i)
    bits |= static_cast<uint64_t>(w.from[i] * size) | static_cast<uint64_t>(w.to[i] * size);
  return static_cast<int64_t>(bits & (~bits + 1));
}

}  // namespace strided_copy_detail

Kernel strided_copy(CudaDevice& d, const Tensor& src, const Region& from, const Tensor& dst, const Region& to,
                    const Dims& dims) {
  using namespace strided_copy_detail;
  check(src.dtype == dst.dtype, "strided_copy does not convert");
  if (numel(dims) == 0) return [] {};
  const int64_t size = size_of(src.dtype);
  CopyWalk w = copy_walk(dims, from.strides, to.strides);
  const char* x = static_cast<const char*>(src.data) + from.offset * size;
  char* y = static_cast<char*>(dst.data) + to.offset * size;
  // In a recorded step, a copy by the driver starts later than a kernel, so the driver does only large copies.
  if (w.n.size() == 1 && w.from[0] == 1 && w.to[0] == 1 && w.n[0] * size >= kByDriver)
    return [&d, x, y, bytes = w.n[0] * size] { d.copy(y, x, bytes); };
  const int64_t unit = unit_of(x, y, size, w);
  if (unit > size) {
    const size_t last = w.n.size() - 1;
    w.n[last] /= unit / size;
    for (size_t i = 0; i < last; ++i) {
      w.from[i] /= unit / size;
      w.to[i] /= unit / size;
    }
    if (unit == 16) return plain<Sixteen>(d, x, y, w);
  }
  switch (unit) {
    case 1:
      return typed<uint8_t>(d, x, y, w);
    case 2:
      return typed<uint16_t>(d, x, y, w);
    case 4:
      return typed<uint32_t>(d, x, y, w);
    default:
      return typed<uint64_t>(d, x, y, w);
  }
}

}  // namespace amp::cuda
