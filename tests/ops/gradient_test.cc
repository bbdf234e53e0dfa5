// Gradients of every core operator against finite differences in fp64, with a random upstream gradient (with ones, a
// wrong tanh gradient would pass). Also a test that the comparison detects a wrong gradient.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <iostream>

#include "backend/parallel.h"
#include "base/error.h"
#include "graph/op.h"
#include "tests/ops/case_run.h"
#include "tests/ops/differences.h"
#include "tests/ops/one_node.h"

using namespace amp;
using namespace amp::test;

namespace {

struct Count {
  size_t cases = 0, tensors = 0, controls = 0;
};

// Checks the gradients of all inputs of a case, and adds the number of checks to `count`.
void check_case(const std::string& op, const OpSpec& spec, size_t index, Count& count) {
  const OpCase& c = spec.cases[index];
  INFO(describe(op, c) << "(case " << index << "; again: test_ops \"finite differences\" -c " << op << ')');
  const CaseRun backward(op, c, DType::f64, true), forward(op, c, DType::f64, false, spec.surrogate);
  const std::vector<HostTensor> in = draw_inputs(c, 100 + index), dy = backward.random_upstream(index);
  const CaseResult r = backward(in, dy);
  ++count.cases;
  for (size_t i = 0; i < c.in.size(); ++i) {
    if (c.in[i].role != Role::value) continue;
    INFO("input " << i);
    std::vector<double> grad(static_cast<size_t>(in[i].numel()), 0.0);
    if (r.grads.count(i)) {
      REQUIRE(r.grads.at(i).dims() == in[i].dims());
      grad = r.grads.at(i).to_doubles();
    }
    const double scale = largest(grad);
    if (spec.zero_gradient) CHECK(scale == 0);
    const std::vector<Probe> probes = probe(forward, c, in, dy, i, grad);
    const Verdict v = judge(probes, grad, scale);
    INFO(v.text);
    CHECK(v.excess <= 1);
    ++count.tensors;
    if (scale < 1e-9) continue;  // the gradient is 0 except for rounding: multiples of it would pass, too
    for (const double mutation : {1.01, -1.0, 0.0}) {
      std::vector<double> wrong = grad;
      for (double& g : wrong) g *= mutation;
      INFO("a gradient multiplied by " << mutation << " must be caught");
      CHECK(judge(probes, wrong, largest(wrong)).excess > 1);
      ++count.controls;
    }
  }
}

}  // namespace

TEST_CASE("gradients of all core operators are those of finite differences") {
  const WithThreads one(1);  // a case is too little work for several threads
  Count total;
  for (const auto& [op, spec] : op_specs()) {
    if (!find_core_op(op) || !core_op(op).gradient) continue;
    DYNAMIC_SECTION(op) {
      Count count;
      for (size_t i = 0; i < spec.cases.size(); ++i) {
        if (spec.cases[i].finite_differences) check_case(op, spec, i, count);
      }
      CHECK((spec.zero_gradient || count.controls > 0));
      total.cases += count.cases;
      total.tensors += count.tensors;
      total.controls += count.controls;
    }
  }
  static Count all;  // static: the test case runs once per section
  all.cases += total.cases;
  all.tensors += total.tensors;
  all.controls += total.controls;
  static const struct Report {
    ~Report() {
      std::cout << "finite differences: " << all.cases << " nodes, " << all.tensors << " gradients, " << all.controls
                << " wrong gradients caught\n";
    }
  } report;
}
