// The kernels of ReduceSum, ReduceMax, ReduceMin and ReduceProd (ops/reduce.cc). x is viewed as (outer, n, inner) and
// reduced over n. There are four kernels: one thread per result (few summands or many results), column sums
// (columns.cuh), blocks for long rows, and warps for short rows. ReduceShape chooses the kernel by the shape only, so
// that the bits do not depend on the device.
#include <limits>

#include "backend/cuda/columns.cuh"
#include "backend/cuda/rows.cuh"
#include "ops/reduce_shape.h"

namespace amp::cuda {
namespace {

// Reduces columns, for example for bias gradients. A thread reduces W neighboring columns.
template <class Op, class T, int W>
struct Columns {
  using Value = T;
  using Loaded = Raw<T, W>;
  static constexpr int kSums = 1, kWidth = W;
  struct Context {};
  Ref x, y;
  T none;
  int64_t rows, columns;
  DEV T identity() const { return none; }
  DEV T combine(T a, T b) const { return Op{}(a, b); }
  DEV Context begin(int64_t) const { return {}; }
  DEV Loaded fetch(int64_t outer, int64_t row, int64_t column) const {
    return amp::cuda::fetch<T, W>(x, (outer * rows + row) * columns + column);
  }
  DEV void add(T (&acc)[1][W], const Loaded& l, const Context&) const {
    T v[W];
    unpack(x, l, v);
    for (int w = 0; w < W; ++w) acc[0][w] = combine(acc[0][w], v[w]);
  }
  DEV void store(int, int64_t cell, T v) const { amp::cuda::store(y, cell, v); }
};

// Reduces long rows, with one or several blocks per row. columns.cuh treats a long row as a matrix of one column and n
// / W rows.
template <class Op, class T, int W>
struct LongRows {
  using Value = T;
  using Loaded = Raw<T, W>;
  static constexpr int kSums = 1, kWidth = 1, min_blocks = 4;
  struct Context {};
  Ref x, y;
  T none;
  int64_t n;
  DEV T identity() const { return none; }
  DEV T combine(T a, T b) const { return Op{}(a, b); }
  DEV Context begin(int64_t) const { return {}; }
  DEV Loaded fetch(int64_t outer, int64_t group, int64_t) const {
    return amp::cuda::fetch<T, W>(x, outer * n + group * W);
  }
  DEV void add(T (&acc)[1][1], const Loaded& l, const Context&) const {
    T v[W];
    unpack(x, l, v);
    for (int w = 0; w < W; ++w) acc[0][0] = combine(acc[0][0], v[w]);
  }
  DEV void store(int, int64_t cell, T v) const { amp::cuda::store(y, cell, v); }
};

// Reduces short rows, with one warp per row.
template <class Op, class T, int W>
struct ShortRows {
  Ref x, y;
  T none;
  int64_t n;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    T sum = none;
    team.for_each(n / W, [&](int64_t i) {
      T v[W];
      unpack(x, fetch<T, W>(x, row * n + i * W), v);
      for (int w = 0; w < W; ++w) sum = Op{}(sum, v[w]);
    });
    sum = team.reduce(sum, none, Op{});
    if (team.leads()) store(y, row, sum);
  }
};

// Computes W neighboring results per thread. Used if there are few summands or enough results to fill the device.
template <class Op, class T, int W>
struct Alone {
  Ref x, y;
  T none;
  int64_t n, inner;
  DEV void operator()(int64_t group) const {
    const int64_t i = group * W, outer = quotient(i, inner), at = outer * n * inner + i - outer * inner;
    T sum[W], v[W];
    for (int w = 0; w < W; ++w) sum[w] = none;
    for (int64_t k = 0; k < n; ++k) {
      unpack(x, fetch<T, W>(x, at + k * inner), v);
      for (int w = 0; w < W; ++w) sum[w] = Op{}(sum[w], v[w]);
    }
    if constexpr (W == 4)
      store4(y, i, sum);
    else
      store(y, i, sum[0]);
  }
};

template <class Op, class T>
Kernel typed(const KernelArgs& a, Carver& carver, T none) {
  const Tensor &x = a.in[0], &y = a.out[0];
  const ReduceShape shape(x.dims, a.attrs().ints("axes"));
  const int64_t outer = shape.outer, n = shape.n, inner = shape.inner;
  if (y.numel() == 0) return [] {};
  constexpr bool floating = std::is_same_v<T, float>;
  constexpr int W = floating ? 4 : 1;
  const bool four = floating && (inner == 1 ? n : inner) % 4 == 0;
  if (shape.one_thread_per_result()) {
    if (carver.measuring()) return {};
    CudaDevice& d = device_of(a);
    const int64_t count = y.numel();
    if (inner > 1 && four)
      return [&d, body = Alone<Op, T, W>{x, y, none, n, inner}, count] { for_each(d, count / W, body); };
    return [&d, body = Alone<Op, T, 1>{x, y, none, n, inner}, count] { for_each(d, count, body); };
  }
  if (shape.by_columns()) {
    if (four) return reduce_columns(a, carver, outer, n, inner, Columns<Op, T, W>{x, y, none, n, inner});
    return reduce_columns(a, carver, outer, n, inner, Columns<Op, T, 1>{x, y, none, n, inner});
  }
  if (team_size(n) > 32) {
    if (four) return reduce_columns(a, carver, outer, n / W, 1, LongRows<Op, T, W>{x, y, none, n});
    return reduce_columns(a, carver, outer, n, 1, LongRows<Op, T, 1>{x, y, none, n});
  }
  if (carver.measuring()) return {};
  CudaDevice& d = device_of(a);
  if (four) return [&d, outer, body = ShortRows<Op, T, W>{x, y, none, n}] { for_each_row(d, outer, body.n, body); };
  return [&d, outer, body = ShortRows<Op, T, 1>{x, y, none, n}] { for_each_row(d, outer, body.n, body); };
}

// Returns the neutral element of the operation Op, such as 0 for a sum, in the tensor's type.
template <class Op, class T>
T identity() {
  using L = std::numeric_limits<T>;
  if constexpr (std::is_same_v<Op, Sum>)
    return T(0);
  else if constexpr (std::is_same_v<Op, Product>)
    return T(1);
  else if constexpr (std::is_same_v<Op, Maximum>)
    return L::has_infinity ? -L::infinity() : L::lowest();
  else
    return L::has_infinity ? L::infinity() : L::max();
}

template <class Op>
Kernel reduce(const KernelArgs& a, Carver& carver) {
  const DType t = a.in[0].dtype;
  if (t == DType::i64) return typed<Op, int64_t>(a, carver, identity<Op, int64_t>());
  if (t == DType::i32) return typed<Op, int64_t>(a, carver, identity<Op, int32_t>());
  if (!is_float(t)) fail(Exit::unsupported, "E_DTYPE", cat(a.node.op->name, " has no kernel for ", name_of(t)));
  if (in_double(a)) no_fp64(a);
  return typed<Op, float>(a, carver, identity<Op, float>());
}

template <class Op>
RegisterKernel registration(const char* name) {
  return {DeviceKind::cuda, name, with_workspace<reduce<Op>>, measure_workspace<reduce<Op>>};
}
const RegisterKernel kernels[] = {registration<Sum>("ReduceSum"), registration<Maximum>("ReduceMax"),
                                  registration<Minimum>("ReduceMin"), registration<Product>("ReduceProd")};

}  // namespace
}  // namespace amp::cuda
