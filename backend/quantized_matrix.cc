// Reads the attributes of a DequantizeMatrix node (ops/dequantize_matrix.cc). This code is here because the CUDA plugin
// contains backend/ and not ops/.
#include "backend/quantized_matrix.h"

#include "backend/kernel.h"

namespace amp {

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

}  // namespace amp
