// com.microsoft MatMulNBits, MatMulBnb4, GatherBlockQuantized: products and lookups with weights of 2 to 8 bits. The
// weight is unpacked to its full size in floating point when the graph is bound to input shapes (graph/bind.h), and is
// not trained. Gradients pass to the activation and the bias, as in ONNX Runtime's gradient of MatMulBnb4.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"
#include "ops/composed/quantize.h"

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
// Returns element k of a row of packed elements of `bits` bits, lowest bits first.
int64_t unpacked(const uint8_t* row, int64_t k, int64_t bits) {
  const int64_t at = k * bits;
  const uint32_t pair = row[at / 8] | (at % 8 + bits > 8 ? static_cast<uint32_t>(row[at / 8 + 1]) << 8 : 0);
  return (pair >> (at % 8)) & ((1u << bits) - 1);
}
ValueId as_working(const Lowering& l, Dims dims, const std::vector<float>& v) {
  return l.b.constant(HostTensor::of<float>(std::move(dims), v).cast(l.float_type()));
}

// A weight that is quantized in blocks. row() dequantizes a row: it subtracts zero points and multiplies by scales.
struct Blocks {
  const uint8_t* data;
  std::vector<double> scales, zeros;  // zeros: empty, or one per block
  std::vector<int64_t> block_of;      // of each column (g_idx); empty: columns are in order
  const uint8_t* packed_zeros = nullptr;
  int64_t bits, block, blocks, row_bytes, zero_bytes;

  void row(int64_t r, int64_t columns, float* out) const {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t k = block_of.empty() ? c / block : block_of[static_cast<size_t>(c)];
      double zero = static_cast<double>(int64_t{1} << (bits - 1));
      if (packed_zeros)
        zero = static_cast<double>(unpacked(packed_zeros + r * zero_bytes, k, bits));
      else if (!zeros.empty())
        zero = zeros[static_cast<size_t>(r * blocks + k)];
      const int64_t q = unpacked(data + r * row_bytes, c, bits);
      out[c] = static_cast<float>((static_cast<double>(q) - zero) * scales[static_cast<size_t>(r * blocks + k)]);
    }
  }
};

// Returns the scales or zero points in input i, which are stored. Fails if one is not finite.
std::vector<double> finite(const Lowering& l, size_t i) {
  std::vector<double> v = stored(l, i).to_doubles();
  require_finite(l, i, v);
  return v;
}
void read_scales(const Lowering& l, size_t i, int64_t rows, Blocks& b) {
  b.scales = finite(l, i);
  if (static_cast<int64_t>(b.scales.size()) != rows * b.blocks)
    fail(Exit::model, "E_SHAPE",
         cat(l.node.op, ": ", b.scales.size(), " scales for ", rows, " rows of ", b.blocks, " blocks"));
}
void read_zeros(const Lowering& l, size_t i, int64_t rows, Blocks& b) {
  if (!l.has(i)) return;
  if (is_float(stored(l, i).dtype())) {
    b.zeros = finite(l, i);
    if (b.zeros.size() != b.scales.size())
      fail(Exit::model, "E_SHAPE", cat(l.node.op, ": ", b.zeros.size(), " zero points"));
    return;
  }
  b.zero_bytes = (b.blocks * b.bits + 7) / 8;
  b.packed_zeros = bytes_of(l, i, rows * b.zero_bytes);
}
void check_bits(const Lowering& l, const Blocks& b) {
  if (b.bits < 2 || b.bits > 8) l.unsupported(cat(b.bits, " bits"));
  if (b.block < 1 || b.block > 1 << 24) fail(Exit::model, "E_ATTR", cat(l.node.op, ": block_size ", b.block));
}

// Reads g_idx (K), the block of each column. Packed zero points beside it are refused, because onnxruntime ignores them
// on a CPU: which of the two readings the exporter meant is not known.
void read_columns(const Lowering& l, int64_t k, Blocks& b) {
  if (!l.has(4)) return;
  if (b.packed_zeros) l.unsupported("g_idx beside packed zero points");
  b.block_of = stored(l, 4).to_ints();
  const auto outside = [&](int64_t block) { return block < 0 || block >= b.blocks; };
  if (static_cast<int64_t>(b.block_of.size()) < k || std::any_of(b.block_of.begin(), b.block_of.end(), outside))
    fail(Exit::model, "E_SHAPE",
         cat(l.node.op, ": g_idx has ", b.block_of.size(), " elements for ", k, " columns of ", b.blocks, " blocks"));
}

// MatMulNBits. Inputs: A (..., K), B (N, blocks, bytes), scales (N, blocks), zero points, g_idx, bias (N).
void lower_n_bits(Lowering& l) {
  const int64_t n = l.attrs.i("N", 0), k = l.attrs.i("K", 0);
  if (n < 1 || k < 1 || l.dims(0).empty() || l.dims(0).back() != k)
    fail(Exit::model, "E_SHAPE", cat("MatMulNBits of ", to_string(l.dims(0)), " with K = ", k, ", N = ", n));
  if (l.attrs.i("weight_prepacked", 0) != 0) l.unsupported("a weight in a GPU's own layout (weight_prepacked)");
  Blocks b{};
  b.bits = l.attrs.i("bits", 4);
  b.block = l.attrs.i("block_size", 0);
  check_bits(l, b);
  b.blocks = (k + b.block - 1) / b.block;
  b.row_bytes = b.blocks * (b.block * b.bits / 8);
  const int64_t bytes = checked_mul(n, b.row_bytes);
  b.data = bytes_of(l, 1, bytes);
  // More bytes than these are packed with another number of bits or in other blocks, so every number would be wrong.
  if (stored(l, 1).numel() != bytes)
    fail(Exit::model, "E_SHAPE",
         cat("MatMulNBits: input 1 has ", stored(l, 1).numel(), " bytes ", to_string(l.dims(1)), ", ", n, " rows of ",
             b.blocks, " blocks of ", b.block, " numbers of ", b.bits, " bits need ", bytes));
  read_scales(l, 2, n, b);
  read_zeros(l, 3, n, b);
  read_columns(l, k, b);
  std::vector<float> w(static_cast<size_t>(n * k));
  for (int64_t r = 0; r < n; ++r) b.row(r, k, w.data() + r * k);
  ValueId y = l.b.op("MatMul", {l.in(0), as_working(l, {n, k}, w)},
                     {{"transA", int64_t{0}}, {"transB", int64_t{1}}, {"alpha", 1.0}});
  if (l.has(5)) y = add(l.b, y, l.in(5));
  l.out(0, y);
}

// The 16 values of bitsandbytes' formats FP4 and NF4.
constexpr std::array<double, 16> kFp4{0,    5.208333333e-03,  0.66666667,  1,  0.33333333,  0.5,  0.16666667,  0.25,
                                      -0.0, -5.208333333e-03, -0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25};
constexpr std::array<double, 16> kNf4{-1.0,
                                      -0.6961928009986877,
                                      -0.5250730514526367,
                                      -0.39491748809814453,
                                      -0.28444138169288635,
                                      -0.18477343022823334,
                                      -0.09105003625154495,
                                      0.0,
                                      0.07958029955625534,
                                      0.16093020141124725,
                                      0.24611230194568634,
                                      0.33791524171829224,
                                      0.44070982933044434,
                                      0.5626170039176941,
                                      0.7229568362236023,
                                      1.0};

// MatMulBnb4. Inputs: A (..., K), B (N K / 2) with the first number of a pair in the high bits, absmax (one per block
// of the flat weight).
void lower_bnb4(Lowering& l) {
  const int64_t n = l.attrs.i("N", 0), k = l.attrs.i("K", 0), block = l.attrs.i("block_size", 0);
  const bool transposed = l.attrs.i("transB", 1) != 0;
  if (n < 1 || k < 1 || block < 1 || l.dims(0).empty() || l.dims(0).back() != (transposed ? k : n))
    fail(Exit::model, "E_SHAPE",
         cat("MatMulBnb4 of ", to_string(l.dims(0)), " with K = ", k, ", N = ", n, ", blocks of ", block));
  const uint8_t* const data = bytes_of(l, 1, (checked_mul(n, k) + 1) / 2);
  const std::vector<double> most = finite(l, 2);
  if (static_cast<int64_t>(most.size()) < (n * k + block - 1) / block)
    fail(Exit::model, "E_SHAPE", cat("MatMulBnb4: ", most.size(), " scales"));
  const auto& table = l.attrs.i("quant_type", 1) == 0 ? kFp4 : kNf4;
  std::vector<float> w(static_cast<size_t>(n * k));
  for (int64_t i = 0; i < n * k; ++i) {
    const uint8_t pair = data[i / 2];
    w[static_cast<size_t>(i)] = static_cast<float>(table[i % 2 ? pair & 15 : pair >> 4]) *
                                static_cast<float>(most[static_cast<size_t>(i / block)]);
  }
  l.out(0, l.b.op("MatMul", {l.in(0), as_working(l, {n, k}, w)},
                  {{"transA", int64_t{0}}, {"transB", int64_t{transposed}}, {"alpha", 1.0}}));
}

// True for a table of type INT4 or UINT4, which the importer unpacks. A UINT8 table packs elements of `bits` bits.
bool unpacked_table(const HostTensor& data, int64_t columns_of_scales, int64_t block) {
  if ((data.dims()[1] + block - 1) / block != columns_of_scales) return false;
  if (data.dtype() == DType::i8) return true;
  const auto* bytes = static_cast<const uint8_t*>(data.data());
  return std::all_of(bytes, bytes + data.bytes(), [](uint8_t b) { return b < 16; });
}

// Dequantizes an unpacked table: subtracts zero points (0 by default) and multiplies by scales.
std::vector<float> dequantized_table(const Lowering& l, const HostTensor& data, int64_t block) {
  const int64_t rows = data.dims()[0], columns = data.dims()[1], blocks = (columns + block - 1) / block;
  const std::vector<double> q = data.to_doubles(), scales = finite(l, 2);
  const std::vector<double> zeros = l.has(3) ? stored(l, 3).to_doubles() : std::vector<double>(scales.size(), 0);
  if (static_cast<int64_t>(scales.size()) != rows * blocks || zeros.size() != scales.size())
    fail(Exit::model, "E_SHAPE",
         cat(l.node.op, ": ", scales.size(), " scales and ", zeros.size(), " zero points for ", rows, " rows of ",
             blocks, " blocks"));
  std::vector<float> table(q.size());
  for (int64_t i = 0; i < rows * columns; ++i) {
    const auto k = static_cast<size_t>(i / columns * blocks + i % columns / block);
    table[static_cast<size_t>(i)] = static_cast<float>((q[static_cast<size_t>(i)] - zeros[k]) * scales[k]);
  }
  return table;
}

// Looks up rows of an embedding table. Inputs: data (rows, packed columns), indices, scales (rows, blocks), zero
// points.
void lower_gather(Lowering& l) {
  const Dims d = l.dims(0);
  const int64_t rank = l.rank(0);
  if (rank != 2 || normalize_axis(l.attrs.i("gather_axis", 0), rank) != 0 ||
      normalize_axis(l.attrs.i("quantize_axis", 1), rank) != 1)
    l.unsupported("a table that is not (rows, columns) with blocks along the columns");
  Blocks b{};
  b.bits = l.attrs.i("bits", 4);
  b.block = l.attrs.i("block_size", 128);
  check_bits(l, b);
  const HostTensor& data = stored(l, 0);
  const Dims scales = l.dims(2);
  if (scales.size() == 2 && (data.dtype() == DType::i8 || data.dtype() == DType::u8) &&
      unpacked_table(data, scales[1], b.block)) {
    l.out(0, lookup(l.b, as_working(l, d, dequantized_table(l, data, b.block)), l.in(1)));
    return;
  }
  const int64_t rows = d[0], columns = d[1] * 8 / b.bits;
  b.blocks = (columns + b.block - 1) / b.block;
  b.row_bytes = d[1];
  b.data = bytes_of(l, 0, rows * d[1]);
  read_scales(l, 2, rows, b);
  read_zeros(l, 3, rows, b);
  std::vector<float> table(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r) b.row(r, columns, table.data() + r * columns);
  l.out(0, lookup(l.b, as_working(l, {rows, columns}, table), l.in(1)));
}

const RegisterOnnx quantized_weights_onnx[] = {
    RegisterOnnx{{"MatMulNBits", lower_n_bits, 1, "com.microsoft"}},
    RegisterOnnx{{"MatMulBnb4", lower_bnb4, 1, "com.microsoft"}},
    RegisterOnnx{{"GatherBlockQuantized", lower_gather, 1, "com.microsoft"}}};

}  // namespace
}  // namespace amp
