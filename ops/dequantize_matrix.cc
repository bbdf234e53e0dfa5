// DequantizeMatrix is not folded into a dense constant. On the CPU, products and lookups that read it dequantize only
// the elements that they need (OpDef::deferred), so the node is not executed. Its own kernel is for other readers,
// other devices and fp64.
#include "ops/dequantize_matrix.h"

#include "backend/cpu/gemm/dequantize.h"
#include "backend/parallel.h"

namespace amp {
namespace {

double number(const void* data, DType t, int64_t i) {
  double out = 0;
  convert(t, static_cast<const char*>(data) + i * size_of(t), DType::f64, &out, 1);
  return out;
}
double element(const QuantizedMatrix& m, int64_t r, int64_t c) {
  const int64_t i = m.scale_index(r, c);
  double zero = m.zero;
  if (m.zeros) zero = m.zero_bits != 0 ? static_cast<double>(packed_zero(m, r, c)) : number(m.zeros, m.zero_dtype, i);
  return dequantized(m, quantized_integer(m, r, c), number(m.scales, m.scale_dtype, i), zero);
}

Kernel dequantize_matrix(const KernelArgs& a) {
  const QuantizedMatrix m = quantized_matrix(a);
  const Tensor y = a.out[0];
  return [m, y] {
    parallel_ranges(m.rows, 16384 / (m.columns + 1) + 1, [&](int64_t b, int64_t e) {
      if (y.dtype == DType::f64) {
        for (int64_t i = b * m.columns; i < e * m.columns; ++i)
          static_cast<double*>(y.data)[i] = element(m, i / m.columns, i % m.columns);
        return;
      }
      cpu::dequantize(m, b, e - b, 0, m.columns, y.dtype,
                      static_cast<char*>(y.data) + b * m.columns * size_of(y.dtype));
    });
  };
}

void infer_dequantize(InferCtx& c) {
  const auto scales = static_cast<int64_t>(c.in(1).dtype);
  c.out(static_cast<DType>(c.attrs.i("to", scales)), {c.attrs.i("rows", 0), c.attrs.i("columns", 0)});
}

OpDef dequantize_def() {
  OpDef d;
  d.name = "DequantizeMatrix";
  d.infer = infer_dequantize;
  d.not_differentiable = true;
  d.min_inputs = 2;
  d.deferred = true;
  return d;
}
const RegisterOp dequantize_op{dequantize_def()};
const RegisterKernel dequantize_cpu{DeviceKind::cpu, "DequantizeMatrix", dequantize_matrix};

}  // namespace

ValueId dequantized_matrix(Builder& b, const QuantizedMatrix& m, ValueId data, ValueId scales, ValueId zeros) {
  std::vector<ValueId> in{data, scales};
  if (zeros) in.push_back(zeros);
  return b.op("DequantizeMatrix", std::move(in),
              {{"rows", m.rows},
               {"columns", m.columns},
               {"bits", m.bits},
               {"row_bits", m.row_bits},
               {"high_first", int64_t{m.high_first}},
               {"codes", static_cast<int64_t>(m.codes)},
               {"block_rows", m.block_rows},
               {"scale_row", m.scale_row},
               {"block_columns", m.block_columns},
               {"scale_column", m.scale_column},
               {"flat_block", m.flat_block},
               {"zero_bits", m.zero_bits},
               {"zero_row_bits", m.zero_row_bits},
               {"zero", m.zero}});
}

}  // namespace amp
