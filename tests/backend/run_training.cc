#include "tests/backend/run_training.h"

#include <algorithm>
#include <cmath>

#include "backend/interpreter.h"
#include "backend/program.h"
#include "graph/autodiff.h"
#include "graph/passes.h"

namespace amp::test {

Graph with_gradients(Graph g) {
  Builder b(g, cpu_evaluator());
  std::vector<ValueId> wrt;
  for (int32_t i = 0; i < g.n_values(); ++i) {
    if (g.value(ValueId{i}).kind == ValueKind::param) wrt.push_back(ValueId{i});
  }
  Autodiff ad(b, wrt);
  ad.seed(g.outputs[0].value, g.add_input("seed", DType::f32, {}));
  ad.run();
  for (const ValueId w : wrt) g.param_grads.push_back({g.value(w).slot, ad.grad(w)});
  return prune(g);
}

std::vector<double> loss_and_gradients(const Graph& g, const std::map<std::string, HostTensor>& inputs,
                                       const std::vector<HostTensor>& params, const RunState& state) {
  const auto arena = cpu_device().make_arena();
  ProgramOptions o;
  o.arena = arena.get();
  o.state = &state;
  std::vector<HostTensor> grads;
  for (const HostTensor& p : params) {
    grads.push_back(HostTensor::zeros(DType::f32, p.dims()));
    o.params.push_back({const_cast<void*>(p.data()), DType::f32, p.dims()});
    o.grads.push_back({grads.back().mutable_data(), DType::f32, p.dims()});
  }
  Program program(std::make_shared<Graph>(g), o);
  for (const auto& [name, t] : inputs) {
    if (program.has_input(name)) program.set_input(name, t);
  }
  program.set_input("seed", HostTensor::scalar<double>(1));
  program.run();
  std::vector<double> all = program.read("loss").to_doubles();
  for (const HostTensor& t : grads) {
    const std::vector<double> v = t.to_doubles();
    all.insert(all.end(), v.begin(), v.end());
  }
  return all;
}

double largest_difference(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return INFINITY;
  double worst = 0, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = std::abs(got[i] - want[i]);
    worst = std::isnan(d) ? INFINITY : std::max(worst, d);
    largest = std::max(largest, std::abs(want[i]));
  }
  return worst / largest;
}

}  // namespace amp::test
