// Tests that a stored weight which cannot be dequantized as the file means it is refused, not computed with.
#include <limits>

#include "base/text.h"
#include "tests/importer/models.h"
#include "tests/importer/run.h"

using namespace amp;
using namespace amp::test;

namespace {

std::string bytes(int n) {
  std::vector<std::string> all;
  for (int i = 0; i < n; ++i) all.push_back(cat(i * 37 % 251));
  return join(all, ",");
}

// Binds and runs the model on x of `dims`, and returns the error.
Error error_of(const onnx::ModelProto& m, const Dims& dims) {
  const TempDir f;
  const Imported model = import_model(save(f, m));
  try {
    run(model.graph, {{"x", HostTensor::zeros(DType::f32, dims)}});
  } catch (const Error& e) {
    return e;
  }
  FAIL("no error");
  throw 0;
}

// Replaces the element `at` of the floating-point initializer `name`.
void set_number(onnx::ModelProto& m, const std::string& name, int at, float x) {
  for (auto& t : *m.mutable_graph()->mutable_initializer()) {
    if (t.name() == name) t.set_float_data(at, x);
  }
}

onnx::ModelProto n_bits(int bits, int stored) {
  return parse(cat(R"(<ir_version: 8, opset_import: ["" : 21, "com.microsoft" : 1]> g
    (float[N,32] x) => (float[N,4] y) <uint8[4,2,)",
                   stored, "] B = {", bytes(8 * stored), R"(}, float[8] s = {1,1,1,1,1,1,1,1}>
    { y = com.microsoft.MatMulNBits <K = 32, N = 4, bits = )",
                   bits, ", block_size = 16> (x, B, s) }"));
}

}  // namespace

TEST_CASE("a scale of DequantizeLinear that is not finite is refused", "[quantized]") {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  for (const float x : bad) {
    for (const char* type : {"uint8", "int8"}) {
      onnx::ModelProto m =
          parse(cat(R"(<ir_version: 10, opset_import: ["" : 21]> g (float[N,8] x) => (float[N,4] y) <)", type,
                    "[8,4] B = {", bytes(8), ",", bytes(8), ",", bytes(8), ",", bytes(8),
                    R"(}, float[4] s = {0.5,0.25,0.125,1}>
        { w = DequantizeLinear <axis = 1> (B, s) y = MatMul (x, w) })"));
      {
        const TempDir f;
        CHECK_NOTHROW(run(import_model(save(f, m)).graph, {{"x", HostTensor::zeros(DType::f32, {1, 8})}}));
      }
      set_number(m, "s", 2, x);
      expect(error_of(m, {1, 8}), Exit::model, "E_SCALE_NONFINITE",
             "DequantizeLinear: input 1 (of the quantized weight) holds ");
    }
  }
}

TEST_CASE("a packed weight of another number of bytes than its bits and blocks need is refused", "[quantized]") {
  for (const int bits : {2, 4, 8}) {
    INFO(bits);
    const TempDir f;
    CHECK_NOTHROW(
        run(import_model(save(f, n_bits(bits, 2 * bits))).graph, {{"x", HostTensor::zeros(DType::f32, {1, 32})}}));
  }
  expect(error_of(n_bits(3, 8), {1, 32}), Exit::model, "E_SHAPE",
         "input 1 has 64 bytes [4,2,8], 4 rows of 2 blocks of 16 numbers of 3 bits need 48");
  expect(error_of(n_bits(8, 8), {1, 32}), Exit::model, "E_SHAPE", "has 64 bytes, it needs 128");
}
