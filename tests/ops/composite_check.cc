#include "tests/ops/composite_check.h"

#include <catch2/catch_all.hpp>
#include <cmath>

#include "graph/autodiff.h"
#include "graph/passes.h"
#include "ops/passes/fused_operators.h"
#include "tests/backend/small_nets.h"

namespace amp::test {

std::string formed(const std::string& text, const std::vector<DType>& compute) {
  return ops_of(fuse_operators(prune(CoreText(text).graph), compute, cpu_evaluator()));
}

namespace {

// Returns the graph in fp64, with the gradients of sum(output 0 * seed).
Graph differentiated(Graph g) {
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    if (is_float(v.dtype) && v.kind != ValueKind::constant) g.set_dtype(ValueId{i}, DType::f64);
  }
  Graph wide;  // a second copy, so that folded constants are fp64 too
  Builder b(wide, cpu_evaluator());
  std::map<int32_t, ValueId> map;
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    if (v.kind == ValueKind::input) map[i] = wide.add_input(v.name, v.dtype, v.dims);
    if (v.kind == ValueKind::param) map[i] = wide.add_param(v.slot, v.name, v.dtype, v.dims);
    if (v.kind == ValueKind::constant)
      map[i] = b.constant(is_float(v.dtype) ? v.constant.cast(DType::f64) : v.constant);
  }
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    std::vector<ValueId> in;
    for (const ValueId v : node.in) in.push_back(v ? map.at(v.index) : ValueId{});
    const auto out = b.ops(node.op->name, in, node.attrs);
    for (size_t i = 0; i < out.size(); ++i) map[node.out[i].index] = out[i];
  }
  const ValueId y = map.at(g.outputs[0].value.index);
  wide.outputs = {{"y", y}};
  std::vector<ValueId> wrt;
  for (int32_t i = 0; i < wide.n_values(); ++i) {
    if (wide.value(ValueId{i}).kind == ValueKind::param) wrt.push_back(ValueId{i});
  }
  Autodiff ad(b, wrt);
  ad.seed(y, wide.add_input("seed", DType::f64, wide.value(y).dims));
  ad.run();
  for (const ValueId w : wrt) wide.param_grads.push_back({wide.value(w).slot, ad.grad(w)});
  return wide;
}

}  // namespace

void same_numbers(const std::string& text, double constants) {
  const Graph plain = prune(CoreText(text).graph);
  const Graph a = differentiated(plain), b = differentiated(fuse_operators(plain, {}, cpu_evaluator()));
  const auto inputs = random_inputs(a, 3);
  const auto params = random_params(a, 4);
  const Interpreted x = interpret(a, inputs, params), y = interpret(b, inputs, params);
  const auto close = [&](const HostTensor& s, const HostTensor& t) {
    REQUIRE(s.dims() == t.dims());
    const std::vector<double> u = s.to_doubles(), v = t.to_doubles();
    double largest = 0;
    for (const double e : u) largest = std::max(largest, std::abs(e));
    for (size_t i = 0; i < u.size(); ++i) REQUIRE(std::abs(u[i] - v[i]) <= constants * largest);
  };
  close(x.outputs.at("y"), y.outputs.at("y"));
  REQUIRE(x.param_grads.size() == y.param_grads.size());
  for (const auto& [slot, g] : x.param_grads) close(g, y.param_grads.at(slot));
}

}  // namespace amp::test
