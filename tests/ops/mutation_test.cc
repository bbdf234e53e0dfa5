// Mutation test of the gradient checks: backward graphs are modified in one place at a time, and finite differences
// must detect each modification. Places: each contribution to a gradient (negated, scaled by 1.01, dropped), each
// output of a *Grad kernel (scaled by 1.01), each Sub, Div, Pow and MatMul (operands swapped).
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <functional>
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

constexpr size_t kCasesPerOperator = 8;

struct Mutant {
  std::string what;
  ValueId value;  // the value that is multiplied by `factor`, or
  double factor = 1;
  NodeId swapped;  // the node whose first two operands are swapped
};

bool is_scalable(const Graph& g, ValueId v) {
  return v && is_float(g.value(v).dtype) && g.value(v).kind == ValueKind::temp;
}

// Collects the contributions that add up to v: the leaves of the tree of Adds that accumulated it.
void contributions(const Graph& g, ValueId v, int32_t forward, std::vector<ValueId>& out) {
  const Value& x = g.value(v);
  if (x.kind == ValueKind::temp && x.producer.index >= forward) {
    const Node& n = g.node(x.producer);
    const bool same = n.in.size() == 2 && g.value(n.in[0]).dims == x.dims && g.value(n.in[1]).dims == x.dims;
    if (n.op->name == "Add" && same) {
      for (const ValueId part : n.in) contributions(g, part, forward, out);
      return;
    }
  }
  if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
}

std::vector<Mutant> mutants_of(const Graph& g, int32_t forward) {
  std::vector<Mutant> out;
  std::vector<ValueId> parts;
  for (const auto& p : g.param_grads) contributions(g, p.value, forward, parts);
  for (const ValueId v : parts) {
    if (!is_scalable(g, v) || g.value(v).producer.index < forward) continue;  // the upstream gradient itself, passed on
    for (const double f : {-1.0, 1.01, 0.0}) out.push_back({cat("contribution #", v.index, " times ", f), v, f, {}});
  }
  for (int32_t i = forward; i < g.n_nodes(); ++i) {
    const Node& n = g.node(NodeId{i});
    const std::string name(n.op->name);
    if (name.find("Grad") != std::string::npos) {
      for (const ValueId v : n.out) {
        if (is_scalable(g, v)) out.push_back({cat(name, " output #", v.index, " times 1.01"), v, 1.01, {}});
      }
    }
    const bool ordered = name == "Sub" || name == "Div" || name == "Pow" || name == "MatMul";
    if (ordered && n.in[0] != n.in[1] && g.value(n.in[0]).dims == g.value(n.in[1]).dims)
      out.push_back({cat(name, " #", i, " with its operands swapped"), {}, 1, NodeId{i}});
  }
  return out;
}

Graph broken(const Graph& g, const Mutant& m) {
  Graph out;
  std::vector<ValueId> at(static_cast<size_t>(g.n_values()));
  const auto to = [&](ValueId v) { return v ? at[static_cast<size_t>(v.index)] : v; };
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    ValueId& made = at[static_cast<size_t>(i)];
    if (v.kind == ValueKind::input) made = out.add_input(v.name, v.dtype, v.dims);
    if (v.kind == ValueKind::param) made = out.add_param(v.slot, v.name, v.dtype, v.dims);
    if (v.kind == ValueKind::constant) made = out.add_constant(v.constant);
  }
  for (int32_t i = 0; i < g.n_nodes(); ++i) {
    const Node& n = g.node(NodeId{i});
    std::vector<ValueId> in;
    for (const ValueId v : n.in) in.push_back(to(v));
    if (NodeId{i} == m.swapped) std::swap(in[0], in[1]);
    std::vector<std::pair<DType, Dims>> outputs;
    for (const ValueId v : n.out) outputs.push_back({g.value(v).dtype, g.value(v).dims});
    const NodeId made = out.add_copy(n, in, outputs);
    for (size_t k = 0; k < n.out.size(); ++k) {
      ValueId v = out.node(made).out[k];
      if (n.out[k] == m.value) {
        const DType t = g.value(m.value).dtype;
        const ValueId f = out.add_constant(HostTensor::scalar<double>(m.factor).cast(t));
        v = out.node(out.add_node(core_op("Mul"), {v, f}, {}, n.origin)).out[0];
      }
      at[static_cast<size_t>(n.out[k].index)] = v;
    }
  }
  for (const auto& o : g.outputs) out.outputs.push_back({o.name, to(o.value)});
  for (const auto& p : g.param_grads) out.param_grads.push_back({p.slot, to(p.value)});
  return out;
}

struct Count {
  size_t caught = 0, without_effect = 0;
};

void mutate_case(const std::string& op, const OpCase& c, Surrogate surrogate, size_t index, Count& count) {
  INFO(describe(op, c) << "(case " << index << ")");
  const CaseRun backward(op, c, DType::f64, true), forward(op, c, DType::f64, false, surrogate);
  const std::vector<HostTensor> in = draw_inputs(c, 100 + index), dy = backward.random_upstream(index);
  const CaseResult right = backward(in, dy);
  std::map<size_t, std::vector<Probe>> probes;
  for (const auto& [i, grad] : right.grads) probes[i] = probe(forward, c, in, dy, i, grad.to_doubles());
  for (const Mutant& m : mutants_of(backward.graph(), backward.forward_nodes())) {
    INFO(m.what);
    const CaseResult wrong = backward.run(broken(backward.graph(), m), in, dy);
    bool differs = false, caught = false;
    for (const auto& [i, grad] : wrong.grads) {
      const std::vector<double> a = grad.to_doubles(), b = right.grads.at(i).to_doubles();
      double most = 0;
      for (size_t k = 0; k < a.size(); ++k) most = std::max(most, std::abs(a[k] - b[k]));
      if (!(most <= 1e-12 * std::max(1.0, largest(b)))) {
        differs = true;
        caught = caught || judge(probes.at(i), a, largest(a)).excess > 1;
      }
    }
    if (differs) {
      CHECK(caught);
      ++count.caught;
    } else {
      ++count.without_effect;  // the modified value was zero or symmetric
    }
  }
}

}  // namespace

TEST_CASE("every broken gradient rule is caught") {
  const WithThreads one(1);
  Count all;
  for (const auto& [op, spec] : op_specs()) {
    const OpDef* def = find_core_op(op);
    if (!def || !def->gradient || spec.zero_gradient) continue;
    Count count;
    size_t done = 0;
    for (size_t i = 0; i < spec.cases.size() && done < kCasesPerOperator; ++i) {
      const OpCase& c = spec.cases[i];
      const bool empty = std::any_of(c.in.begin(), c.in.end(), [](const Operand& o) { return numel(o.dims) == 0; });
      if (!c.finite_differences || empty) continue;
      mutate_case(op, c, spec.surrogate, i, count);
      ++done;
    }
    INFO("operator " << op << ": no mutant of its backward graph had an effect");
    // These operators pass the upstream gradient on unchanged, so their rule has no factor or operand to modify.
    const bool passes_on = op == "Add" || op == "Reshape" || op == "Cast" || op == "RoundStraight";
    CHECK((count.caught > 0 || passes_on));
    all.caught += count.caught;
    all.without_effect += count.without_effect;
  }
  std::cout << "mutants of backward graphs: " << all.caught << " caught, " << all.without_effect << " without effect\n";
}
