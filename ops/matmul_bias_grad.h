// MatMulBiasGrad: the gradients of a linear layer's weight and bias in one node. For two matrices it returns
//   c (m, n) = op(a) op(b),   sums = the column sums of one of the two as it is stored (rows, columns)
// Attributes: transA, transB as in MatMul. of: 0: sums (m) of a, which must be stored (k, m); 1: sums (n) of b, which
// must be stored (k, n). parts (1): divides c and sums into this many tensors with equal columns of the summed operand,
// for layers whose weights were concatenated (ops/passes/qkv.h). Outputs: all parts of c, then all parts of the sums.
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
  int64_t m() const { return of == 0 ? columns / parts : product.shape.m; }  // rows of each output tensor
  int64_t n() const { return of == 0 ? product.shape.n : columns / parts; }
  MatMulProducts product;
  size_t of;  // index of the summed operand
  int64_t parts;
  int64_t rows, columns;  // dims of the summed operand as it is stored
};

}  // namespace amp
