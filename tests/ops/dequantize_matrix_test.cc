// A dequantized weight in a Program: products and lookups read it packed, other operators read the dense matrix.
#include "ops/dequantize_matrix.h"

#include <catch2/catch_all.hpp>
#include <cstring>

#include "backend/interpreter.h"
#include "backend/program.h"
#include "base/host_tensor.h"
#include "graph/autodiff.h"

using namespace amp;

namespace {

constexpr int64_t kRows = 96, kColumns = 64;

HostTensor numbers(Dims dims, uint32_t seed) {
  HostTensor t = HostTensor::empty(DType::f32, std::move(dims));
  for (int64_t i = 0; i < t.numel(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    t.as_mutable<float>()[i] = static_cast<float>(seed >> 8) / 8388608.0F - 1;
  }
  return t;
}

// Adds a weight (kRows, kColumns) of 4 bits in blocks of 32.
ValueId weight(Builder& b) {
  QuantizedMatrix m;
  m.rows = kRows, m.columns = kColumns, m.row_bits = kColumns * 4;
  m.scale_row = 2, m.scale_column = 1, m.block_columns = 32, m.zero = 8;
  HostTensor data = HostTensor::empty(DType::u8, {kRows, kColumns / 2});
  for (int64_t i = 0; i < data.numel(); ++i) data.as_mutable<uint8_t>()[i] = static_cast<uint8_t>(i * 37 + i / 7);
  return dequantized_matrix(b, m, b.constant(data), b.constant(numbers({kRows, 2}, 3)), {});
}

// Returns the graph of y = x P W^T with the gradient of P (kColumns, kColumns), and of a lookup of rows of W.
// other: adds an operator that needs the dense W.
Graph training_graph(bool other, DType type) {
  Graph g;
  Builder b(g, cpu_evaluator());
  const ValueId w = b.cast(weight(b), type), x = g.add_input("x", DType::f32, {5, kColumns}),
                p = g.add_param(0, "P", DType::f32, {kColumns, kColumns}), ids = g.add_input("ids", DType::i64, {3});
  const ValueId h = b.cast(b.op("MatMul", {x, p}), type);
  const ValueId y = b.op("MatMul", {h, w}, {{"transB", int64_t{1}}});
  g.outputs = {{"y", y},
               {"rows", b.op("GatherRows", {w, ids},
                             {{"outer", int64_t{1}}, {"n", kRows}, {"inner", kColumns}, {"dims", Dims{3, kColumns}}})}};
  if (other) g.outputs.push_back({"square", b.op("Mul", {w, w})});
  Autodiff ad(b, {p});
  ad.seed(y, g.add_input("dy", type, {5, kRows}));
  ad.run();
  g.param_grads = {{0, ad.grad(p)}};
  return g;
}

bool equal(const Tensor& a, const HostTensor& b) {
  return a.dtype == b.dtype() && std::memcmp(a.data, b.data(), static_cast<size_t>(b.bytes())) == 0;
}

}  // namespace

TEST_CASE("a Program reads a quantized weight packed, with the bits of the dense weight") {
  const bool other = GENERATE(false, true);
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const Graph g = training_graph(other, type);
  std::map<std::string, HostTensor> inputs{{"x", numbers({5, kColumns}, 1)},
                                           {"dy", numbers({5, kRows}, 2).cast(type)},
                                           {"ids", HostTensor::of<int64_t>({3}, {0, 95, 40})}};
  HostTensor param = numbers({kColumns, kColumns}, 4), grad = HostTensor::zeros(DType::f32, {kColumns, kColumns});
  const Interpreted want = interpret(g, inputs, {param});
  HostArena arena;
  RunState state;
  ProgramOptions o;
  o.params = {{param.mutable_data(), DType::f32, param.dims()}};
  o.grads = {{grad.mutable_data(), DType::f32, grad.dims()}};
  o.arena = &arena;
  o.state = &state;
  Program program(std::make_shared<Graph>(g), o);
  for (const auto& [name, t] : inputs) program.set_input(name, t);
  size_t dequantized = 0;
  for (const Program::TimedStep& s : program.run_timed()) dequantized += s.op == "DequantizeMatrix";
  CHECK(dequantized == (other ? 1 : 0));
  for (const auto& [name, t] : want.outputs) {
    INFO(name << ' ' << name_of(type));
    CHECK(equal(program.output(name), t));
  }
  CHECK(equal(o.grads[0], want.param_grads.at(0)));
}

TEST_CASE("a quantized weight is not folded, and its content is available") {
  Graph g;
  Builder b(g, cpu_evaluator());
  const ValueId w = weight(b);
  CHECK_FALSE(b.constant_of(w));
  CHECK(b.content_of(w).dims() == Dims{kRows, kColumns});
  const HostTensor turned = b.content_of(b.transpose(w, {1, 0}));
  CHECK(turned.dims() == Dims{kColumns, kRows});
  CHECK(turned.as<float>()[kRows] == b.content_of(w).as<float>()[1]);
  const ValueId low = b.cast(w, DType::bf16);
  CHECK(b.graph().node(b.value(low).producer).op->name == "DequantizeMatrix");
  CHECK(b.content_of(low).dtype() == DType::bf16);
  CHECK(b.cast(w, DType::bf16) == low);
  CHECK_FALSE(b.content_of(g.add_input("x", DType::f32, {1})));
}

TEST_CASE("a quantized weight whose tensors are too small is refused") {
  Graph g;
  Builder b(g, cpu_evaluator());
  const ValueId data = b.constant(HostTensor::zeros(DType::u8, {4, 16})),
                scales = b.constant(HostTensor::zeros(DType::f32, {4}));
  QuantizedMatrix m;
  m.rows = 4, m.columns = 32, m.row_bits = 128, m.scale_row = 1, m.scale_column = 1, m.block_columns = 32;
  CHECK_NOTHROW(dequantized_matrix(b, m, data, scales, {}));
  const auto refused = [&](auto&& change) {
    QuantizedMatrix wrong = m;
    change(wrong);
    CHECK_THROWS(dequantized_matrix(b, wrong, data, scales, {}));
  };
  refused([](QuantizedMatrix& w) { w.rows = 5; });
  refused([](QuantizedMatrix& w) { w.columns = 33; });
  refused([](QuantizedMatrix& w) { w.row_bits = 256; });
  refused([](QuantizedMatrix& w) { w.bits = 9; });
  refused([](QuantizedMatrix& w) { w.block_columns = 16; });
  refused([](QuantizedMatrix& w) { w.block_columns = 0; });
  refused([](QuantizedMatrix& w) { w.flat_block = 16; });
  refused([](QuantizedMatrix& w) { w.high_first = true, w.bits = 3; });
}
