// The kernels of TopK (ops/topk.cc). x is viewed as (outer, n, inner); a line is the n elements along the axis.
// Elements are ordered by value, then by index; NaN counts as the largest value. If k > 2, lines of at most 4096 floats
// are sorted in shared memory by a bitonic network. Otherwise k passes each select the next element.
#include "backend/cuda/raw.cuh"
#include "backend/cuda/rows.cuh"

namespace amp::cuda {
namespace {

// Maps a value to an unsigned integer, so that the integers have the same order as the values.
DEV uint64_t key_of(float v) {
  if (v != v) return 0xffffffffu;
  v += 0.0f;  // turns -0 into 0
  uint32_t u;
#ifdef __CUDA_ARCH__
  u = __float_as_uint(v);
#else
  std::memcpy(&u, &v, sizeof u);
#endif
  return u >> 31 ? ~u : u | 0x80000000u;
}
DEV uint64_t key_of(int64_t v) { return static_cast<uint64_t>(v) ^ (uint64_t{1} << 63); }
DEV uint64_t key_of(uint64_t v) { return v; }

template <class T>
struct Lines {
  Ref x, values;
  int64_t* indices;
  int64_t n, k, inner, count;
  bool largest;

  DEV int64_t start(int64_t line, int64_t length) const {
    const int64_t outer = quotient(line, inner);
    return outer * length * inner + line - outer * inner;
  }
  // Returns the key by which elements are ordered: a larger key comes first.
  DEV uint64_t key(int64_t at) const {
    const uint64_t u = key_of(load<T>(x, at));
    return largest ? u : std::is_same_v<T, float> ? 0xffffffffu - u : ~u;
  }
  DEV void put(int64_t line, int64_t place, int64_t index) const {
    const int64_t to = start(line, k) + place * inner;
    store(values, to, load<T>(x, start(line, n) + index * inner));
    indices[to] = index;
  }
};

// Sorts a line of at most kSorted floats in shared memory (bitonic). A sorted word has the key in its upper half and
// the inverted index in its lower half, so that equal values are ordered by index.
constexpr int kSorted = 4096;
struct Sort : Lines<float> {
  static constexpr bool cooperative = true;
  int size;  // n rounded up to a power of two
  DEV void operator()() const {
    uint64_t* const s = shared_memory<uint64_t>();
    for (int64_t line = block_index(); line < count; line += grid_blocks()) {
      const int64_t at = start(line, n);
      for (int i = thread_index(); i < size; i += block_threads())
        s[i] = i < n ? key(at + i * inner) << 32 | (0xffffffffu - static_cast<unsigned>(i)) : 0;
      sync_threads();
      for (int run = 2; run <= size; run *= 2) {
        for (int by = run / 2; by > 0; by /= 2) {
          for (int i = thread_index(); i < size; i += block_threads()) {
            const int other = i ^ by;
            if (other < i) continue;
            const uint64_t p = s[i], q = s[other];
            if ((i & run) == 0 ? p < q : p > q) {
              s[i] = q;
              s[other] = p;
            }
          }
          sync_threads();
        }
      }
      for (int i = thread_index(); i < k; i += block_threads()) put(line, i, 0xffffffffu - static_cast<unsigned>(s[i]));
      sync_threads();
    }
  }
};

// Selects k elements in k passes. Each pass finds the next element in the order.
template <class T>
struct Select : Lines<T> {
  static constexpr int min_blocks = 4;
  DEV void operator()(int64_t line, const RowTeam& team) const {
    const int64_t at = this->start(line, this->n);
    uint64_t last_key = ~uint64_t{0};
    int64_t last = -1;
    for (int64_t place = 0; place < this->k; ++place) {
      uint64_t best = 0;
      const auto after = [&](uint64_t u, int64_t i) { return u < last_key || (u == last_key && i > last); };
      team.for_each(this->n, [&](int64_t i) {
        const uint64_t u = this->key(at + i * this->inner);
        if (u > best && after(u, i)) best = u;
      });
      best = team.reduce(best, uint64_t{0}, Maximum{});
      int64_t where = this->n;
      team.for_each(this->n, [&](int64_t i) {
        if (i < where && this->key(at + i * this->inner) == best && after(best, i)) where = i;
      });
      where = team.reduce(where, this->n, Minimum{});
      if (team.leads()) this->put(line, place, where);
      last_key = best;
      last = where;
    }
  }
};

template <class T>
Kernel typed(const KernelArgs& a) {
  const Tensor& x = a.in[0];
  if (a.out[0].numel() == 0) return [] {};
  const auto axis = static_cast<size_t>(a.attrs().i("axis", 0));
  int64_t inner = 1;
  for (size_t d = axis + 1; d < x.dims.size(); ++d) inner *= x.dims[d];
  const int64_t n = x.dims[axis];
  const Lines<T> lines{x,     a.out[0],      a.out[1].as<int64_t>(),        n, a.attrs().i("k", 0),
                       inner, x.numel() / n, a.attrs().i("largest", 1) != 0};
  CudaDevice& d = device_of(a);
  if constexpr (std::is_same_v<T, float>) {
    if (n <= kSorted && lines.k > 2) {
      int size = 1;
      while (size < n) size *= 2;
      const Grid grid{std::min(lines.count, int64_t{d.multiprocessors()} * 32), std::max(32, std::min(512, size / 2)),
                      size * 8};
      return [&d, grid, body = Sort{lines, size}] { launch(d, grid, body); };
    }
  }
  return [&d, body = Select<T>{lines}] { for_each_row(d, body.count, body.n, body); };
}
Kernel topk(const KernelArgs& a) {
  const DType t = a.in[0].dtype;
  if (t == DType::f64) no_fp64(a);
  if (t == DType::u64) return typed<uint64_t>(a);
  return is_float(t) ? typed<float>(a) : typed<int64_t>(a);
}

const RegisterKernel kernel{DeviceKind::cuda, "TopK", topk};

}  // namespace
}  // namespace amp::cuda
