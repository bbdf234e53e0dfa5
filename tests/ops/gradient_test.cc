// Gradients of every core operator against finite differences in fp64, under a random upstream gradient (with ones a
// wrong tanh gradient passes), and the proof that the comparison catches a wrong one.
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

// All inputs of a case; adds to the count.
void check_case(const std::string& op, const OpCase& c, size_t index, bool zero, Count& count) {
  INFO(describe(op, c) << "(case " << index << "; again: test_ops \"finite differences\" -c " << op << ')');
  const CaseRun backward(op, c, DType::f64, true), forward(op, c, DType::f64, false);
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
    if (zero) CHECK(scale == 0);
    const std::vector<Probe> probes = probe(forward, c, in, dy, i, grad);
    const Verdict v = judge(probes, grad, scale);
    INFO(v.text);
    CHECK(v.excess <= 1);
    ++count.tensors;
    if (scale == 0) continue;
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

TEST_CASE("every core operator has cases", "[elementwise]") {
  for (const OpDef* op : all_core_ops()) {
    INFO("operator " << op->name << " needs an entry in tests/ops/op_cases_*.cc");
    const auto it = op_specs().find(op->name);
    REQUIRE(it != op_specs().end());
    CHECK(!it->second.cases.empty());
    const bool differentiated = std::any_of(it->second.cases.begin(), it->second.cases.end(),
                                            [](const OpCase& c) { return c.finite_differences; });
    CHECK(differentiated == (op->gradient != nullptr && !it->second.straight_through));
    if (it->second.elementwise) CHECK(it->second.cases.size() >= 20);
  }
  for (const auto& [name, spec] : op_specs()) {
    INFO("no such core operator: " << name);
    CHECK(find_core_op(name) != nullptr);
  }
}

TEST_CASE("gradients of all core operators are those of finite differences") {
  const SingleThreaded one;  // small work
  Count total;
  for (const auto& [op, spec] : op_specs()) {
    if (!find_core_op(op) || !core_op(op).gradient || spec.straight_through) continue;
    DYNAMIC_SECTION(op) {
      Count count;
      for (size_t i = 0; i < spec.cases.size(); ++i) {
        if (spec.cases[i].finite_differences) check_case(op, spec.cases[i], i, spec.zero_gradient, count);
      }
      CHECK((spec.zero_gradient || count.controls > 0));
      total.cases += count.cases;
      total.tensors += count.tensors;
      total.controls += count.controls;
    }
  }
  static Count all;  // the test case runs once a section
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

// Axes counted from the end, as ONNX writes them: the same numbers as with the axis counted from the start.
TEST_CASE("negative axes are the positive ones") {
  struct Axis {
    const char* op;
    int64_t version;
    const char* attribute;  // or null: input 1
    bool list;
    size_t inputs;
  };
  for (const Axis& a : {Axis{"Softmax", 13, "axis", false, 1},
                        {"LogSoftmax", 13, "axis", false, 1},
                        {"Softmax", 11, "axis", false, 1},
                        {"Concat", 13, "axis", false, 2},
                        {"Split", 18, "axis", false, 1},
                        {"Flatten", 13, "axis", false, 1},
                        {"ReduceSum", 11, "axes", true, 1},
                        {"ReduceMean", 18, nullptr, true, 1},
                        {"ReduceMax", 13, "axes", true, 1},
                        {"ReduceL2", 18, nullptr, true, 1},
                        {"ReduceLogSumExp", 18, nullptr, true, 1},
                        {"CumSum", 14, nullptr, false, 1},
                        {"Unsqueeze", 11, "axes", true, 1},
                        {"LayerNormalization", 17, "axis", false, 1}}) {
    const Dims dims{2, 3, 4};
    for (int64_t axis = 0; axis < 3; ++axis) {
      const int64_t rank = std::string(a.op) == "Unsqueeze" ? 4 : 3;
      NodeRun runs[2];
      for (const bool negative : {false, true}) {
        const int64_t value = negative ? axis - rank : axis;
        OneNode n;
        n.op = a.op;
        n.version = a.version;
        for (size_t i = 0; i < a.inputs; ++i) n.inputs.push_back(random_tensor(dims, 5 + i));
        if (n.op == "LayerNormalization") n.inputs.push_back(random_tensor(Dims(dims.begin() + axis, dims.end()), 9));
        if (!a.attribute)
          n.inputs.push_back(HostTensor::of<int64_t>(a.list ? Dims{1} : Dims{}, {value}));
        else if (a.list)
          n.attrs.set(a.attribute, std::vector<int64_t>{value});
        else
          n.attrs.set(a.attribute, value);
        if (n.op == "Split") n.inputs.push_back(HostTensor::of<int64_t>({2}, {1, dims[static_cast<size_t>(axis)] - 1}));
        const Dims out = run_node(n, {}, {}, DType::f64).outputs[0].dims();
        runs[negative] = run_node(n, random_tensor(out, 3), {0}, DType::f64);
      }
      INFO(a.op << "-" << a.version << " axis " << axis);
      CHECK(same_bits(runs[0].outputs[0], runs[1].outputs[0]));
      CHECK(same_bits(runs[0].grads.at(0), runs[1].grads.at(0)));
    }
  }
}
