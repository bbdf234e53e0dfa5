// MatMulBiasGrad: the gradients of a linear layer's weight and bias in one node. For two matrices it returns
//   c (m, n) = op(a) op(b),   sums = the column sums of one of the two as it is stored (rows, columns)
// attributes transA, transB as MatMul's; of: 0: sums (m) of a, which is stored (k, m) then; 1: sums (n) of b, stored
// (k, n); parts (1): c and sums as so many tensors, each with as many columns of the summed operand: layers whose
// weights lay side by side in one product (ops/passes/qkv.h) have gradients of their own. Outputs: all of c, all sums.
#pragma once

#include "ops/matmul.h"

namespace amp {

struct MatMulBiasGradShape {
  explicit MatMulBiasGradShape(const KernelArgs& args)
      : product(args),
        of(args.attrs().i("of", 1) == 0 ? 0 : 1),
        parts(args.attrs().i("parts", 1)),
        rows(product.shape.k),
        columns(of == 0 ? product.shape.m : product.shape.n) {}
  int64_t m() const { return of == 0 ? columns / parts : product.shape.m; }  // per part
  int64_t n() const { return of == 0 ? product.shape.n : columns / parts; }
  MatMulProducts product;
  size_t of;  // index of the summed operand
  int64_t parts;
  int64_t rows, columns;  // as stored
};

}  // namespace amp
