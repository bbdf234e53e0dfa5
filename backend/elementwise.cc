// Implements the part of elementwise kernels that does not depend on the functor: broadcasting, storage types, threads.
#include "backend/elementwise.h"

namespace amp::elementwise_detail {

namespace {

// Returns the n elements of t from `offset` on, as `type`. Returns a pointer into t if t has that type; otherwise
// converts the elements into scratch.
const void* load_as(const Tensor& t, DType type, int64_t offset, int64_t n, void* scratch) {
  const char* from = static_cast<const char*>(t.data) + offset * size_of(t.dtype);
  if (t.dtype == type) return from;
  convert(t.dtype, from, type, scratch, n);
  return scratch;
}

template <size_t N>
struct Rows {
  RowFunctor row;
  std::array<Tensor, N> in;
  Tensor out;
  Space<N> space;
  unsigned mask = 0;    // bit k is set if operand k advances along the inner run
  bool direct = false;  // operands and result are stored in the type that the functor computes in

  // Computes elements [begin, end) of one outer row.
  void run(int64_t outer, int64_t begin, int64_t end) const {
    const std::array<int64_t, N> offset = space.offsets(outer);
    const int64_t first = outer * space.inner;
    alignas(64) char scratch[N][kChunk * sizeof(double)];
    alignas(64) char result[kChunk * sizeof(double)];
    const int64_t step = direct ? end - begin : kChunk;
    for (int64_t at = begin; at < end; at += step) {
      const int64_t n = std::min(step, end - at);
      std::array<const void*, N> x;
      for (size_t k = 0; k < N; ++k) {
        const int64_t stride = space.inner_stride[k];
        x[k] = load_as(in[k], row.operand, offset[k] + at * stride, stride ? n : 1, scratch[k]);
      }
      char* const y = static_cast<char*>(out.data) + (first + at) * size_of(out.dtype);
      const bool in_place = out.dtype == row.result;
      row.run(row.functor.data(), x.data(), mask, in_place ? y : result, n);
      if (!in_place) convert(row.result, result, out.dtype, y, n);
    }
  }
};

}  // namespace

template <size_t N>
Kernel row_kernel(const RowFunctor& row, const KernelArgs& a) {
  Rows<N> rows{row, {}, a.out[0], {}};
  std::array<const Dims*, N> dims;
  rows.direct = a.out[0].dtype == row.result;
  for (size_t k = 0; k < N; ++k) {
    rows.in[k] = a.in.at(k);
    dims[k] = &rows.in[k].dims;
    rows.direct = rows.direct && rows.in[k].dtype == row.operand;
  }
  if (a.out[0].numel() == 0) return [] {};
  rows.space = make_space<N>(a.out[0].dims, dims);
  for (size_t k = 0; k < N && rows.space.inner > 1; ++k) rows.mask |= rows.space.inner_stride[k] ? 1u << k : 0u;
  constexpr int64_t kGrain = 16384;
  if (rows.space.outer == 1) {
    return [rows] { parallel_ranges(rows.space.inner, kGrain, [&](int64_t b, int64_t e) { rows.run(0, b, e); }); };
  }
  return [rows] {
    parallel_ranges(rows.space.outer, kGrain / rows.space.inner + 1, [&](int64_t b, int64_t e) {
      for (int64_t r = b; r < e; ++r) rows.run(r, 0, rows.space.inner);
    });
  };
}

template Kernel row_kernel<1>(const RowFunctor&, const KernelArgs&);
template Kernel row_kernel<2>(const RowFunctor&, const KernelArgs&);
template Kernel row_kernel<3>(const RowFunctor&, const KernelArgs&);

}  // namespace amp::elementwise_detail
