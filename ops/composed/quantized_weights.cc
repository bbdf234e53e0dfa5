// com.microsoft MatMulNBits, MatMulBnb4, GatherBlockQuantized: products and lookups with weights of 2 to 8 bits. The
// weight is a DequantizeMatrix node (ops/dequantize_matrix.h): it stays in memory as the file stores it, and is not
// trained. Gradients pass to the activation and the bias, as in ONNX Runtime's gradient of MatMulBnb4.
#include <algorithm>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"
#include "ops/composed/quantize.h"
#include "ops/dequantize_matrix.h"

namespace amp {
namespace {

const HostTensor& stored(const Lowering& l, size_t i) {
  const HostTensor* t = l.b.constant_of(l.in(i));
  if (t) return *t;
  if (l.b.value(l.in(i)).kind == ValueKind::param)
    l.unsupported(cat("input ", i, " (of the quantized weight) trains (`trainable`); it must be constant"));
  l.unsupported(cat("input ", i, " (of the quantized weight) is computed; it must be stored in the file"));
}
const uint8_t* bytes_of(const Lowering& l, size_t i, int64_t least) {
  const HostTensor& t = stored(l, i);
  if (t.dtype() != DType::u8 && t.dtype() != DType::i8) l.unsupported(cat("a weight of ", name_of(t.dtype())));
  if (t.numel() < least)
    fail(Exit::model, "E_SHAPE", cat(l.node.op, ": input ", i, " has ", t.numel(), " bytes, it needs ", least));
  return static_cast<const uint8_t*>(t.data());
}
// Returns the scales or zero points that input i stores. Fails if one is not finite.
std::vector<double> finite(const Lowering& l, size_t i) {
  std::vector<double> v = stored(l, i).to_doubles();
  require_finite(l, i, v);
  return v;
}

void check_blocks(const Lowering& l, int64_t bits, int64_t block) {
  if (bits < 2 || bits > 8) l.unsupported(cat(bits, " bits"));
  if (block < 1 || block > 1 << 24) fail(Exit::model, "E_ATTR", cat(l.node.op, ": block_size ", block));
}

// Describes a matrix of `rows` rows, each quantized in blocks of `block` columns. Input `scales` holds the scales
// (rows, blocks); input `scales` + 1 holds the zero points, or is absent.
QuantizedMatrix blocked(const Lowering& l, int64_t rows, int64_t columns, int64_t bits, int64_t block, size_t scales) {
  check_blocks(l, bits, block);
  QuantizedMatrix m;
  m.rows = rows, m.columns = columns, m.bits = bits;
  const int64_t blocks = (columns + block - 1) / block, count = checked_mul(rows, blocks);
  m.block_columns = block, m.scale_column = 1, m.scale_row = blocks;
  m.zero = static_cast<double>(int64_t{1} << (bits - 1));
  if (const auto have = static_cast<int64_t>(finite(l, scales).size()); have != count)
    fail(Exit::model, "E_SHAPE", cat(l.node.op, ": ", have, " scales for ", rows, " rows of ", blocks, " blocks"));
  const size_t zeros = scales + 1;
  if (!l.has(zeros)) return m;
  if (is_float(stored(l, zeros).dtype())) {
    if (static_cast<int64_t>(finite(l, zeros).size()) != count)
      fail(Exit::model, "E_SHAPE", cat(l.node.op, ": ", stored(l, zeros).numel(), " zero points"));
    return m;
  }
  const int64_t zero_bytes = (blocks * bits + 7) / 8;
  bytes_of(l, zeros, rows * zero_bytes);
  m.zero_bits = bits;
  m.zero_row_bits = zero_bytes * 8;
  return m;
}
ValueId dequantized(const Lowering& l, const QuantizedMatrix& m, size_t data, size_t scales) {
  const size_t zeros = scales + 1;
  return dequantized_matrix(l.b, m, l.in(data), l.in(scales), l.has(zeros) ? l.in(zeros) : ValueId{});
}

// Returns the dense weight of a product with g_idx (K), which gives the block of each column. Such a weight is not kept
// packed. Packed zero points together with g_idx are refused: onnxruntime ignores them on a CPU, so it is unclear
// whether the exporter meant them to be used.
ValueId reordered_weight(const Lowering& l, QuantizedMatrix m) {
  if (m.zero_bits != 0) l.unsupported("g_idx beside packed zero points");
  const std::vector<int64_t> block_of = stored(l, 4).to_ints();
  const auto outside = [&](int64_t block) { return block < 0 || block >= m.scale_row; };
  if (static_cast<int64_t>(block_of.size()) < m.columns || std::any_of(block_of.begin(), block_of.end(), outside))
    fail(Exit::model, "E_SHAPE",
         cat(l.node.op, ": g_idx has ", block_of.size(), " elements for ", m.columns, " columns of ", m.scale_row,
             " blocks"));
  const std::vector<double> scales = finite(l, 2), zeros = l.has(3) ? finite(l, 3) : std::vector<double>{};
  m.data = static_cast<const uint8_t*>(stored(l, 1).data());
  std::vector<float> w(static_cast<size_t>(m.rows * m.columns));
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.columns; ++c) {
      const auto i = static_cast<size_t>(r * m.scale_row + block_of[static_cast<size_t>(c)]);
      const double q = static_cast<double>(quantized_integer(m, r, c)) - (zeros.empty() ? m.zero : zeros[i]);
      w[static_cast<size_t>(r * m.columns + c)] = static_cast<float>(q * scales[i]);
    }
  }
  return l.b.constant(HostTensor::of<float>({m.rows, m.columns}, w).cast(l.float_type()));
}

// Lowers MatMulNBits. Inputs: A (..., K), B (N, blocks, bytes), scales (N, blocks), zero points, g_idx, bias (N).
void lower_n_bits(Lowering& l) {
  const int64_t n = l.attrs.i("N", 0), k = l.attrs.i("K", 0), block = l.attrs.i("block_size", 0);
  if (n < 1 || k < 1 || l.dims(0).empty() || l.dims(0).back() != k)
    fail(Exit::model, "E_SHAPE", cat("MatMulNBits of ", to_string(l.dims(0)), " with K = ", k, ", N = ", n));
  if (l.attrs.i("weight_prepacked", 0) != 0) l.unsupported("a weight in a GPU's own layout (weight_prepacked)");
  QuantizedMatrix m = blocked(l, n, k, l.attrs.i("bits", 4), block, 2);
  if (block * m.bits % 8 != 0)
    l.unsupported(cat("blocks of ", block, " numbers of ", m.bits, " bits: not whole bytes"));
  const int64_t row_bytes = m.scale_row * (block * m.bits / 8), bytes = checked_mul(n, row_bytes);
  m.row_bits = row_bytes * 8;
  bytes_of(l, 1, bytes);
  // Another number of bytes means that the weight is packed with another number of bits or in other blocks. Then every
  // number would be wrong.
  if (stored(l, 1).numel() != bytes)
    fail(Exit::model, "E_SHAPE",
         cat("MatMulNBits: input 1 has ", stored(l, 1).numel(), " bytes ", to_string(l.dims(1)), ", ", n, " rows of ",
             m.scale_row, " blocks of ", block, " numbers of ", m.bits, " bits need ", bytes));
  ValueId y = l.b.op("MatMul", {l.in(0), l.has(4) ? reordered_weight(l, m) : dequantized(l, m, 1, 2)},
                     {{"transA", int64_t{0}}, {"transB", int64_t{1}}, {"alpha", 1.0}});
  if (l.has(5)) y = add(l.b, y, l.in(5));
  l.out(0, y);
}

// Lowers MatMulBnb4. Inputs: A (..., K), B (N * K / 2) with the first number of a pair in the high bits, absmax (one
// per block of the flat weight).
void lower_bnb4(Lowering& l) {
  const int64_t n = l.attrs.i("N", 0), k = l.attrs.i("K", 0), block = l.attrs.i("block_size", 0);
  const bool transposed = l.attrs.i("transB", 1) != 0;
  if (n < 1 || k < 1 || block < 1 || l.dims(0).empty() || l.dims(0).back() != (transposed ? k : n))
    fail(Exit::model, "E_SHAPE",
         cat("MatMulBnb4 of ", to_string(l.dims(0)), " with K = ", k, ", N = ", n, ", blocks of ", block));
  bytes_of(l, 1, (checked_mul(n, k) + 1) / 2);
  if (const auto have = static_cast<int64_t>(finite(l, 2).size()); have < (n * k + block - 1) / block)
    fail(Exit::model, "E_SHAPE", cat("MatMulBnb4: ", have, " scales"));
  QuantizedMatrix m;
  m.rows = n, m.columns = k, m.row_bits = k * m.bits, m.flat_block = block;
  m.high_first = true;
  m.codes = l.attrs.i("quant_type", 1) == 0 ? Codes::fp4 : Codes::nf4;
  l.out(0, l.b.op("MatMul", {l.in(0), dequantized(l, m, 1, 2)},
                  {{"transA", int64_t{0}}, {"transB", int64_t{transposed}}, {"alpha", 1.0}}));
}

// Returns true for a table of type INT4 or UINT4, which the importer has unpacked to bytes. A UINT8 table packs
// elements of `bits` bits.
bool unpacked_table(const HostTensor& data, int64_t columns_of_scales, int64_t block) {
  if ((data.dims()[1] + block - 1) / block != columns_of_scales) return false;
  if (data.dtype() == DType::i8) return true;
  const auto* bytes = static_cast<const uint8_t*>(data.data());
  return std::all_of(bytes, bytes + data.bytes(), [](uint8_t b) { return b < 16; });
}

// Describes an unpacked table (rows, columns). It has one zero point per scale, 0 by default.
QuantizedMatrix table_of_bytes(const Lowering& l, const HostTensor& data, int64_t block) {
  QuantizedMatrix m;
  m.rows = data.dims()[0], m.columns = data.dims()[1];
  m.bits = 8, m.row_bits = m.columns * 8;
  m.codes = data.dtype() == DType::i8 ? Codes::signed_integers : Codes::unsigned_integers;
  m.block_columns = block, m.scale_column = 1, m.scale_row = (m.columns + block - 1) / block;
  const auto scales = static_cast<int64_t>(finite(l, 2).size()), zeros = l.has(3) ? stored(l, 3).numel() : scales;
  if (scales != m.rows * m.scale_row || zeros != scales)
    fail(Exit::model, "E_SHAPE",
         cat(l.node.op, ": ", scales, " scales and ", zeros, " zero points for ", m.rows, " rows of ", m.scale_row,
             " blocks"));
  return m;
}

// Lowers GatherBlockQuantized, which looks up rows of an embedding table. Inputs: data (rows, packed columns), indices,
// scales (rows, blocks), zero points.
void lower_gather(Lowering& l) {
  const Dims d = l.dims(0);
  const int64_t rank = l.rank(0);
  if (rank != 2 || normalize_axis(l.attrs.i("gather_axis", 0), rank) != 0 ||
      normalize_axis(l.attrs.i("quantize_axis", 1), rank) != 1)
    l.unsupported("a table that is not (rows, columns) with blocks along the columns");
  const int64_t bits = l.attrs.i("bits", 4), block = l.attrs.i("block_size", 128);
  check_blocks(l, bits, block);
  const HostTensor& data = stored(l, 0);
  const Dims scales = l.dims(2);
  QuantizedMatrix m;
  if (scales.size() == 2 && (data.dtype() == DType::i8 || data.dtype() == DType::u8) &&
      unpacked_table(data, scales[1], block)) {
    m = table_of_bytes(l, data, block);
  } else {
    m = blocked(l, d[0], d[1] * 8 / bits, bits, block, 2);
    m.row_bits = d[1] * 8;
    bytes_of(l, 0, d[0] * d[1]);
  }
  l.out(0, lookup(l.b, dequantized(l, m, 0, 2), l.in(1)));
}

const RegisterOnnx quantized_weights_onnx[] = {
    RegisterOnnx{{"MatMulNBits", lower_n_bits, 1, "com.microsoft"}},
    RegisterOnnx{{"MatMulBnb4", lower_bnb4, 1, "com.microsoft"}},
    RegisterOnnx{{"GatherBlockQuantized", lower_gather, 1, "com.microsoft"}}};

}  // namespace
}  // namespace amp
