// DequantizeMatrix is not folded into a dense constant, because the products and lookups that read it dequantize the
// elements that they need (OpDef::deferred): on the CPU the node is not executed. Its own kernel is for other readers,
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

QuantizedMatrix quantized_matrix(const KernelArgs& a) {
  QuantizedMatrix m;
  const Attrs& at = a.attrs();
  m.rows = at.i("rows", 0), m.columns = at.i("columns", 0);
  m.data = static_cast<const uint8_t*>(a.in[0].data);
  m.bits = at.i("bits", 4), m.row_bits = at.i("row_bits", 0);
  m.high_first = at.i("high_first", 0) != 0;
  m.codes = static_cast<Codes>(at.i("codes", 0));
  m.scales = a.in[1].data, m.scale_dtype = a.in[1].dtype;
  m.block_rows = at.i("block_rows", 1), m.scale_row = at.i("scale_row", 0);
  m.block_columns = at.i("block_columns", 1), m.scale_column = at.i("scale_column", 0);
  m.flat_block = at.i("flat_block", 0);
  if (a.has(2)) m.zeros = a.in[2].data, m.zero_dtype = a.in[2].dtype;
  m.zero_bits = at.i("zero_bits", 0), m.zero_row_bits = at.i("zero_row_bits", 0);
  m.zero = at.f("zero", 0);
  return m;
}

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
