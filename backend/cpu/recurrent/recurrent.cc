#include "backend/cpu/recurrent/recurrent.h"

#include "backend/cpu/gemm/gemm.h"

namespace amp {

StateWeightsGrad::StateWeightsGrad(Carver& carve, DType dR, int64_t rows, int64_t n, int64_t hidden, DType slopes,
                                   DType before) {
  product_.m = n, product_.n = hidden, product_.k = rows;
  product_.a = {nullptr, slopes, 0, true};
  product_.b = {nullptr, before, hidden, false};
  product_.c_dtype = dR, product_.ldc = hidden;
  if (dR != DType::f64) workspace_ = carve.take<char>(product_.workspace());
}

void StateWeightsGrad::run(const void* slopes, int64_t ld, const void* before, const Tensor& dR, int64_t row) const {
  cpu::PackedGemm g = product_;
  g.c = StoredOut(dR).at(row * g.n);
  if (dR.dtype == DType::f64)
    return cpu::parallel_gemm<double>(true, false, g.m, g.n, g.k, 1, static_cast<const double*>(slopes), ld,
                                      static_cast<const double*>(before), g.n, 0, static_cast<double*>(g.c), g.n);
  g.a.data = slopes, g.a.ld = ld;
  g.b.data = before;
  g.run(workspace_);
}

}  // namespace amp
