// The kernels of ScatterRows (ops/gather.cc), the gradient of an embedding. Rows are sorted by their index and summed
// in order (scatter_rows.cuh).
#include "backend/cuda/columns.cuh"
#include "ops/cuda/scatter_rows.cuh"

namespace amp::cuda {
namespace {

struct RowPlace {
  Ref indices;
  int64_t n;
  DEV int64_t operator()(int64_t i) const {
    const int64_t k = wrapped(load<int64_t>(indices, i), n);
    return k < 0 ? n : k;
  }
};

// Sums the rows of a table that has only one or two rows. No sort is needed: one pass sums the columns for each table
// row.
constexpr int kFewRows = 2;
template <int W>
struct FewRows {
  using Value = float;
  static constexpr int kSums = kFewRows, kWidth = W, min_blocks = 4;
  struct Context {};
  struct Loaded {
    Raw<float, W> x;
    int64_t place;
  };
  Ref x, y;
  RowPlace place;
  int64_t columns;
  bool accumulate;
  DEV float identity() const { return 0; }
  DEV float combine(float a, float b) const { return a + b; }
  DEV Context begin(int64_t) const { return {}; }
  DEV Loaded fetch(int64_t, int64_t row, int64_t column) const {
    return {amp::cuda::fetch<float, W>(x, row * columns + column), place(row)};
  }
  DEV void add(float (&acc)[kFewRows][W], const Loaded& l, const Context&) const {
    float v[W];
    unpack(x, l.x, v);
    // Selects the summand by comparison instead of indexing acc by a variable, which would place acc in local memory.
    unrolled<kFewRows>([&](auto k) {
      for (int w = 0; w < W; ++w) acc[k][w] += l.place == k ? v[w] : 0.0f;
    });
  }
  DEV void store(int k, int64_t column, float v) const {
    if (k >= place.n) return;
    const int64_t at = k * columns + column;
    amp::cuda::store(y, at, accumulate ? load<float>(y, at) + v : v);
  }
};
template <int W>
Kernel sum_few_rows(const KernelArgs& a, Carver& carver, bool accumulate) {
  const int64_t columns = a.attrs().i("inner", 1);
  return reduce_columns(a, carver, 1, a.in[1].numel(), columns,
                        FewRows<W>{a.in[0], a.out[0], {a.in[1], a.attrs().i("n", 1)}, columns, accumulate});
}

template <bool accumulate>
Kernel scatter_rows(const KernelArgs& a, Carver& carver) {
  require_index_type(a.in[1]);
  if (a.in[0].dtype == DType::f64 || a.out[0].dtype == DType::f64) no_fp64(a);
  if (const Attrs& t = a.attrs(); t.i("n", 1) <= kFewRows && t.i("outer", 1) == 1 && a.out[0].numel() > 0) {
    return t.i("inner", 1) % 4 == 0 ? sum_few_rows<4>(a, carver, accumulate) : sum_few_rows<1>(a, carver, accumulate);
  }
  RowSums s{a.in[0], a.out[0], a.attrs().i("outer", 1), a.in[1].numel(), a.attrs().i("n", 1), a.attrs().i("inner", 1)};
  s.accumulate = accumulate;
  return sum_rows(a, carver, s, RowPlace{a.in[1], s.n});
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "ScatterRows", with_workspace<scatter_rows<false>>, measure_workspace<scatter_rows<false>>},
    {DeviceKind::cuda, "ScatterRows+=", with_workspace<scatter_rows<true>>}};

}  // namespace
}  // namespace amp::cuda
