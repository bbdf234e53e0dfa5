// The shapes of a core MatMul, for the kernels of every device.
#pragma once

#include <span>

#include "backend/kernel.h"
#include "base/shape.h"

namespace amp {

struct MatMulShape {  // dims of the product op(A) op(B)
  Dims batch;
  int64_t m, n, k;
};

inline MatMulShape matmul_shape(const Dims& a, const Dims& b, const Attrs& attrs) {
  if (a.size() < 2 || b.size() < 2) bug("core MatMul takes matrices");
  const bool ta = attrs.i("transA", 0) != 0, tb = attrs.i("transB", 0) != 0;
  const size_t ra = a.size(), rb = b.size();
  MatMulShape s;
  s.m = a[ta ? ra - 1 : ra - 2];
  s.k = a[ta ? ra - 2 : ra - 1];
  s.n = b[tb ? rb - 2 : rb - 1];
  const int64_t kb = b[tb ? rb - 1 : rb - 2];
  if (s.k != kb)
    fail(Exit::model, "E_SHAPE", cat("MatMul: inner dimensions differ: A ", to_string(a), " x B ", to_string(b)));
  s.batch = broadcast(std::span(a).first(ra - 2), std::span(b).first(rb - 2));
  return s;
}

// Returns the FLOPs of a node whose first two inputs are the operands.
inline double matmul_flops(const KernelArgs& a) {
  const MatMulShape s = matmul_shape(a.in[0].dims, a.in[1].dims, a.attrs());
  return 2.0 * static_cast<double>(numel(s.batch)) * static_cast<double>(s.m * s.n) * static_cast<double>(s.k);
}

// The matrix products of one node: their shape, and the offset of each matrix of the batch.
struct MatMulProducts {
  explicit MatMulProducts(const KernelArgs& args)
      : da(args.in[0].dims),
        db(args.in[1].dims),
        ta(args.attrs().i("transA", 0) != 0),
        tb(args.attrs().i("transB", 0) != 0),
        alpha(args.attrs().f("alpha", 1)) {
    // If b is one matrix, the matrices of a are multiplied as one matrix with all their rows.
    if (!ta && db.size() == 2 && da.size() > 2) da = {numel(std::span(da).first(da.size() - 1)), da.back()};
    shape = matmul_shape(da, db, args.attrs());
    batch = numel(shape.batch);
    check(batch == 1 || !args.has(2), "MatMul: a bias goes with one product, not a batch");
  }
  // Returns the offsets of the batch's matrices in a stored operand with dims d.
  std::vector<int64_t> offsets(const Dims& d) const {
    std::vector<int64_t> off(static_cast<size_t>(batch));
    const size_t r = d.size() - 2, shift = shape.batch.size() - r;
    const Dims strides = row_major_strides(d);
    for (int64_t i = 0; i < batch; ++i) {
      int64_t rest = i, at = 0;
      for (size_t k = shape.batch.size(); k-- > 0;) {
        const int64_t at_dim = rest % shape.batch[k];
        rest /= shape.batch[k];
        if (k >= shift && d[k - shift] != 1) at += at_dim * strides[k - shift];
      }
      off[static_cast<size_t>(i)] = at;
    }
    return off;
  }

  Dims da, db;
  bool ta, tb;
  double alpha;
  MatMulShape shape;
  int64_t batch = 1;
};

}  // namespace amp
