// Operations and bytes of nodes, counted by hand.
#include "backend/node_work.h"

#include <catch2/catch_all.hpp>

#include "backend/program.h"
#include "graph/autodiff.h"
#include "tests/graph/core_text.h"

using namespace amp;

namespace {

// Makes the arguments of a node's kernel: tensors of its shapes at arbitrary addresses.
NodeWork work_of(const std::string& text, const std::string& output, bool accumulates = false) {
  const test::CoreText t(text);
  const Node& node = t.producer(output);
  static char somewhere;
  KernelArgs args{node, {}, {}};
  const auto tensor = [&](ValueId v) {
    return v ? Tensor{&somewhere, t.graph.value(v).dtype, t.graph.value(v).dims} : Tensor{};
  };
  for (const ValueId v : node.in) args.in.push_back(tensor(v));
  for (const ValueId v : node.out) args.out.push_back(tensor(v));
  return node_work(args, accumulates);
}

}  // namespace

TEST_CASE("products take two operations for each of their terms", "[node_work]") {
  const NodeWork matrix = work_of("input x 4 3\nparam W 3 5\nparam b 5\ny = MatMul(x, W, b)\noutput y", "y");
  CHECK(matrix.flops == 2 * 4 * 3 * 5);
  CHECK(matrix.read == 4 * (12 + 15 + 5));
  CHECK(matrix.written == 4 * 20);
  CHECK(work_of("input x 2 6 4 3\ninput z 2 6 5 3\ny = MatMul(x, z) {transB=1}\noutput y", "y").flops ==
        2 * 12 * 4 * 5 * 3);

  // Conv: 2 images, 4 output channels, 8x8 positions with a padding of 1. An output sums 3 channels: all of 3, or half
  // of 6 if there are two groups.
  const char* conv = "{strides=[1 1]; dilations=[1 1]; pads=[1 1 1 1]; group=";
  CHECK(work_of(cat("input x 2 3 8 8\nparam w 4 3 3 3\ny = Conv(x, w) ", conv, "1}\noutput y"), "y").flops ==
        2.0 * (2 * 4 * 8 * 8) * (3 * 3 * 3));
  CHECK(work_of(cat("input x 2 6 8 8\nparam w 4 3 3 3\ny = Conv(x, w) ", conv, "2}\noutput y"), "y").flops ==
        2.0 * (2 * 4 * 8 * 8) * (3 * 3 * 3));
  CHECK(work_of(cat("input dy 2 4 8 8\nparam w 4 3 3 3\ndx = ConvGradX(dy, w) ", conv, "1; dims=[2 3 8 8]}\noutput dx"),
                "dx")
            .flops == 2.0 * (2 * 4 * 8 * 8) * (3 * 3 * 3));
  CHECK(work_of(cat("input x 2 3 8 8\ninput dy 2 4 8 8\ndw = ConvGradW(x, dy) ", conv, "1; dims=[4 3 3 3]}\noutput dw"),
                "dw")
            .flops == 2.0 * (2 * 4 * 8 * 8) * (3 * 3 * 3));
}

TEST_CASE("bytes are those of operands and results, of a table those of the rows", "[node_work]") {
  const NodeWork sum = work_of("input x 4 3\ninput z 3\ny = Add(x, z)\noutput y", "y");
  CHECK(sum.flops == 0);
  CHECK(sum.read == 4 * (12 + 3));
  CHECK(sum.written == 4 * 12);
  CHECK(work_of("input x 4 3\ninput z 4 3\ny = Add(x, z)\noutput y", "y", true).read == 4 * 36);
  const NodeWork rows = work_of(
      "input ids i64 5\nparam table 1000 16\ny = GatherRows(table, ids) {outer=1; n=1000; inner=16; dims=[5 "
      "16]}\noutput y",
      "y");
  CHECK(rows.written == 4 * 5 * 16);
  CHECK(rows.read == 4 * 5 * 16 + 8 * 5);
}

TEST_CASE("a timed run times every step once, in order", "[node_work]") {
  const test::CoreText t("input x 8 16\nparam W 16 4\ny = MatMul(x, W)\nz = Relu(y)\noutput z");
  const auto graph = std::make_shared<Graph>(t.graph);
  HostArena arena;
  HostTensor w = HostTensor::zeros(DType::f32, {16, 4});
  ProgramOptions o;
  o.arena = &arena;
  o.params = {{w.mutable_data(), w.dtype(), w.dims()}};
  Program p(graph, o);
  p.set_input("x", HostTensor::zeros(DType::f32, {8, 16}));
  for (int run = 0; run < 3; ++run) {
    const std::vector<Program::TimedStep> steps = p.run_timed();
    REQUIRE(steps.size() == p.n_steps());
    CHECK(steps[0].node->op->name == "MatMul");
    CHECK(steps[0].work.flops == 2 * 8 * 16 * 4);
    for (size_t i = 0; i < steps.size(); ++i) {
      CHECK(steps[i].begin <= steps[i].end);
      if (i > 0) CHECK(steps[i].begin == steps[i - 1].end);
    }
  }
}
