// The kernels of ArgMax and ArgMin (ops/shape_ops.cc). x is viewed as (outer, n, inner); a line is the n elements along
// the axis. As on the CPU, a NaN is chosen only if it comes first.
#include "backend/cuda/raw.cuh"
#include "backend/cuda/rows.cuh"

namespace amp::cuda {
namespace {

template <bool Max, class T>
struct Arg {
  Ref x, y;
  int64_t n, inner;
  bool last;

  DEV static bool better(T a, T b) { return Max ? a > b : a < b; }
  DEV int64_t start(int64_t i) const {
    const int64_t outer = quotient(i, inner);
    return outer * n * inner + i - outer * inner;
  }
};

// Processes a line with one thread. Used if there are many lines or they are short. Neighboring threads process
// neighboring lines, so that memory accesses coalesce.
template <bool Max, class T>
struct Alone : Arg<Max, T> {
  DEV void operator()(int64_t i) const {
    const int64_t at = this->start(i);
    T best = load<T>(this->x, at);
    int64_t where = 0;
    for (int64_t k = 1; k < this->n; ++k) {
      const T v = load<T>(this->x, at + k * this->inner);
      if (this->better(v, best) || (this->last && v == best)) {
        best = v;
        where = k;
      }
    }
    store(this->y, i, where);
  }
};

template <bool Max>
struct Better {
  template <class T>
  DEV T operator()(T a, T b) const {
    return (Max ? b > a : b < a) ? b : a;
  }
};

// Processes a line with one team (rows.cuh): finds the extreme, then its index.
template <bool Max, class T>
struct Together : Arg<Max, T> {
  static constexpr int min_blocks = 4;
  DEV void operator()(int64_t i, const RowTeam& team) const {
    const int64_t at = this->start(i);
    const T first = load<T>(this->x, at);
    T best = first;
    team.for_each(this->n, [&](int64_t k) {
      const T v = load<T>(this->x, at + k * this->inner);
      if (this->better(v, best)) best = v;
    });
    best = team.reduce(best, first, Better<Max>{});
    int64_t where = this->last ? -1 : this->n;
    team.for_each(this->n, [&](int64_t k) {
      if (load<T>(this->x, at + k * this->inner) == best && (this->last ? k > where : k < where)) where = k;
    });
    where = this->last ? team.reduce(where, int64_t{-1}, Maximum{}) : team.reduce(where, this->n, Minimum{});
    if (first != first) where = 0;
    if (team.leads()) store(this->y, i, where);
  }
};

template <bool Max, class T>
Kernel typed(const KernelArgs& a) {
  const Tensor& x = a.in[0];
  const auto axis = static_cast<size_t>(a.attrs().i("axis", 0));
  const int64_t lines = a.out[0].numel();
  if (lines == 0) return [] {};
  if (x.dims[axis] == 0) return [&d = device_of(a), y = a.out[0]] { d.fill(y.data, 0, y.bytes()); };
  int64_t inner = 1;
  for (size_t d = axis + 1; d < x.dims.size(); ++d) inner *= x.dims[d];
  const Arg<Max, T> arg{x, a.out[0], x.dims[axis], inner, a.attrs().i("select_last_index", 0) != 0};
  CudaDevice& d = device_of(a);
  if (arg.n <= 4 || (inner >= 32 && lines >= 16384))
    return [&d, lines, body = Alone<Max, T>{arg}] { for_each(d, lines, body); };
  return [&d, lines, body = Together<Max, T>{arg}] { for_each_row(d, lines, body.n, body); };
}
template <bool Max>
Kernel arg(const KernelArgs& a) {
  const DType t = a.in[0].dtype;
  if (t == DType::f64) no_fp64(a);
  return t == DType::i64 || t == DType::i32 ? typed<Max, int64_t>(a) : typed<Max, float>(a);
}

const RegisterKernel kernels[] = {{DeviceKind::cuda, "ArgMax", arg<true>}, {DeviceKind::cuda, "ArgMin", arg<false>}};

}  // namespace
}  // namespace amp::cuda
