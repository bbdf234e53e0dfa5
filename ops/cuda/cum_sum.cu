// The kernels of CumSum (ops/shape_ops.cc). x is viewed as (outer, n, inner); a line is the n elements along the axis.
// If there are enough lines, one thread sums each line in order. Otherwise one warp per line computes prefix sums of 32
// elements at a time.
#include "backend/cuda/raw.cuh"
#include "backend/cuda/rows.cuh"

namespace amp::cuda {
namespace {

template <class T>
struct Scan {
  Ref x, y;
  int64_t n, inner;
  bool exclusive, reverse;

  // Returns the offset of element k, in the order of the sum, of line i.
  DEV int64_t at(int64_t i, int64_t k) const {
    const int64_t outer = quotient(i, inner);
    return (outer * n + (reverse ? n - 1 - k : k)) * inner + i - outer * inner;
  }
};

// Processes a line with one thread. Used if there are many lines or they are short. Neighboring threads process
// neighboring lines, so that memory accesses coalesce.
template <class T>
struct Alone : Scan<T> {
  DEV void operator()(int64_t i) const {
    T sum = 0;
    for (int64_t k = 0; k < this->n; ++k) {
      const int64_t p = this->at(i, k);
      const T before = sum;
      sum += load<T>(this->x, p);
      store(this->y, p, this->exclusive ? before : sum);
    }
  }
};

// Processes a line with one warp, 32 elements at a time.
template <class T>
struct Together : Scan<T> {
  static constexpr int min_blocks = 4;
  DEV void operator()(int64_t i, const RowTeam&) const {
    T carry = 0;
    for (int64_t k = 0; k < this->n; k += 32) {
      const int64_t mine = k + lane();
      const bool inside = mine < this->n;
      const int64_t p = inside ? this->at(i, mine) : 0;
      T sum = inside ? load<T>(this->x, p) : T(0);
      for (int by = 1; by < 32; by *= 2) {
        const T left = shuffle(sum, lane() >= by ? lane() - by : lane());
        if (lane() >= by) sum += left;
      }
      sum += carry;
      const T left = shuffle(sum, lane() > 0 ? lane() - 1 : 0);
      if (inside) store(this->y, p, this->exclusive ? (lane() > 0 ? left : carry) : sum);
      carry = shuffle(sum, 31);
    }
  }
};

template <class T>
Kernel typed(const KernelArgs& a) {
  const Tensor& x = a.in[0];
  const auto axis = static_cast<size_t>(a.attrs().i("axis", 0));
  if (x.numel() == 0) return [] {};
  int64_t inner = 1;
  for (size_t d = axis + 1; d < x.dims.size(); ++d) inner *= x.dims[d];
  const Scan<T> scan{
      x, a.out[0], x.dims[axis], inner, a.attrs().i("exclusive", 0) != 0, a.attrs().i("reverse", 0) != 0};
  const int64_t lines = x.numel() / scan.n;
  CudaDevice& d = device_of(a);
  if (scan.n <= 4 || (inner >= 32 && lines >= 16384))
    return [&d, lines, body = Alone<T>{scan}] { for_each(d, lines, body); };
  return [&d, lines, body = Together<T>{scan}] { for_each_row(d, lines, 32, body); };
}
Kernel cum_sum(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  const DType t = a.in[0].dtype;
  return t == DType::i64 || t == DType::i32 ? typed<int64_t>(a) : typed<float>(a);
}

const RegisterKernel kernel{DeviceKind::cuda, "CumSum", cum_sum};

}  // namespace
}  // namespace amp::cuda
