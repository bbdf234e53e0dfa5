// Cases of DequantizeMatrix: the forms of quantized weights that models store.
#include "backend/quantized_matrix.h"
#include "base/dtype.h"
#include "tests/ops/op_cases.h"

namespace amp::test {

namespace {

struct Form {
  int64_t rows, columns, bits, block;
  bool float_zeros = false, packed_zeros = false;
};

// Returns a case of DequantizeMatrix whose matrix is stored in blocks along its rows, as in MatMulNBits.
OpCase blocked(const Form& f) {
  const int64_t blocks = (f.columns + f.block - 1) / f.block, row_bytes = blocks * f.block * f.bits / 8,
                zero_bytes = (blocks * f.bits + 7) / 8;
  OpCase c;
  c.finite_differences = false;
  c.in = {{{f.rows * row_bytes}, integers(0, 255), Role::byte}, {{f.rows, blocks}, uniform(-2, 2), Role::held}};
  c.attrs = {{"rows", f.rows},
             {"columns", f.columns},
             {"bits", f.bits},
             {"row_bits", row_bytes * 8},
             {"scale_row", blocks},
             {"block_columns", f.block},
             {"scale_column", int64_t{1}},
             {"zero", 7.0}};
  if (f.float_zeros) c.in.push_back({{f.rows, blocks}, integers(0, 15), Role::held});
  if (!f.packed_zeros) return c;
  c.in.push_back({{f.rows * zero_bytes}, integers(0, 255), Role::byte});
  c.attrs.set("zero_bits", f.bits);
  c.attrs.set("zero_row_bits", zero_bytes * 8);
  return c;
}

// Returns a case of DequantizeMatrix whose matrix has the format NF4 or FP4. Its blocks may begin and end within a row.
OpCase flat(int64_t rows, int64_t columns, int64_t block, Codes codes) {
  OpCase c;
  c.finite_differences = false;
  c.in = {{{(rows * columns + 1) / 2}, integers(0, 255), Role::byte},
          {{(rows * columns + block - 1) / block}, uniform(0, 2), Role::held}};
  c.attrs = {{"rows", rows},
             {"columns", columns},
             {"row_bits", columns * 4},
             {"high_first", int64_t{1}},
             {"flat_block", block},
             {"codes", static_cast<int64_t>(codes)}};
  return c;
}

// Returns a case of DequantizeMatrix whose elements are bytes, with scales and zero points per tensor, per row, per
// column, or in blocks of rows.
OpCase bytes(int64_t rows, int64_t columns, int64_t scale_rows, int64_t scale_columns, Codes codes) {
  OpCase c;
  c.finite_differences = false;
  c.in = {{{rows, columns}, integers(0, 255), Role::byte},
          {{scale_rows, scale_columns}, uniform(-2, 2), Role::held},
          {{scale_rows, scale_columns}, integers(0, 255), Role::byte}};
  c.attrs = {{"rows", rows},
             {"columns", columns},
             {"bits", int64_t{8}},
             {"row_bits", columns * 8},
             {"codes", static_cast<int64_t>(codes)},
             {"block_rows", rows / scale_rows},
             {"scale_row", scale_rows > 1 ? scale_columns : 0},
             {"block_columns", columns / scale_columns},
             {"scale_column", int64_t{scale_columns > 1}}};
  return c;
}

}  // namespace

void add_quantized_cases(OpSpecs& s) {
  std::vector<OpCase>& cases = s["DequantizeMatrix"].cases;
  for (const int64_t bits : {2, 3, 4, 5, 6, 7, 8}) {
    for (const int64_t block : {16, 32}) {
      cases.push_back(blocked({3, 50, bits, block}));
      cases.push_back(blocked({2, 64, bits, block, true}));
      cases.push_back(blocked({2, 48, bits, block, false, true}));
    }
  }
  cases.push_back(blocked({1, 1, 4, 16}));
  cases.push_back(blocked({3, 1100, 4, 256}));
  cases.push_back(blocked({70, 64, 4, 32}));
  for (const Codes codes : {Codes::fp4, Codes::nf4}) {
    cases.push_back(flat(4, 32, 16, codes));
    cases.push_back(flat(5, 7, 16, codes));  // rows begin within a byte and within a block
    cases.push_back(flat(1, 3, 64, codes));
  }
  for (const Codes codes : {Codes::unsigned_integers, Codes::signed_integers}) {
    cases.push_back(bytes(6, 20, 1, 1, codes));
    cases.push_back(bytes(6, 20, 6, 1, codes));
    cases.push_back(bytes(6, 20, 1, 20, codes));
    cases.push_back(bytes(6, 20, 3, 20, codes));
    cases.push_back(bytes(6, 20, 6, 5, codes));
  }
}

}  // namespace amp::test
