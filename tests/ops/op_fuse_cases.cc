// Generates random graphs of elementwise nodes from a seed: broadcasting, casts between storage types, conditions,
// dropout and column sums. Fused and unfused execution must give the same bits.
#include <random>

#include "backend/functors.h"
#include "backend/program.h"
#include "graph/op.h"
#include "tests/ops/fuse_cases.h"
#include "tests/ops/one_node.h"

namespace amp::test {

namespace {

const char* const kOperators[] = {"Add",       "Sub",       "Mul",         "Div",  "Neg",  "Abs",      "Relu",
                                  "ReluGrad",  "Sigmoid",   "SigmoidGrad", "Tanh", "Gelu", "GeluGrad", "GeluTanhGrad",
                                  "Swish",     "SwishGrad", "Exp",         "Erf",  "Sqrt", "Softplus", "Mish",
                                  "MishGrad",  "LeakyRelu", "Clip",        "Max",  "Min",  "Pow",      "Quantize",
                                  "HardSwish", "Floor",     "Round",       "Sin",  "Log"};
const char* const kPredicates[] = {"Greater", "LessOrEqual", "Equal", "IsNaN"};

}  // namespace

RandomGraph::RandomGraph(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(rng() % n); };
  const Dims shapes[] = {{3, 5, 8}, {2, 7},     {4, 1, 6, 4}, {1025},  {2, 3, 4, 4}, {1},
                         {6, 64},   {40, 3, 8}, {3000, 12},   {77, 5}, {9, 20, 6}};
  const Dims dims = shapes[below(std::size(shapes))];
  const DType types[] = {DType::f32, DType::f16, DType::bf16};
  std::vector<ValueId> floats, bools;  // both: values of the full shape, or that broadcast to it
  const auto same = [&](ValueId v) { return graph.value(v).dims == dims; };
  for (size_t i = 0; i < 2 + below(4); ++i) {
    Dims d = dims;
    if (i > 0 && below(2)) {
      for (int64_t& n : d) n = below(3) == 0 ? 1 : n;
      if (below(3) == 0) d.erase(d.begin());
    }
    HostTensor t = random_tensor(d, seed * 100 + i).cast(types[below(3)]);
    const std::string name = cat("x", i);
    floats.push_back(graph.add_input(name, t.dtype(), d));
    inputs_.emplace_back(name, t);
  }
  const auto node = [&](const char* op, std::vector<ValueId> in, Attrs a = {}) {
    return graph.node(graph.add_node(core_op(op), std::move(in), std::move(a), {})).out[0];
  };
  const auto any = [&](const std::vector<ValueId>& from) { return from[below(from.size())]; };
  const auto whole = [&] {
    for (size_t k = 0; k < 20; ++k) {
      const ValueId v = any(floats);
      if (same(v)) return v;
    }
    return floats[0];
  };
  for (size_t i = 0; i < 6 + below(30); ++i) {
    const size_t kind = below(12);
    ValueId v;
    if (kind == 0) {
      v = node("Cast", {any(floats)}, {{"to", static_cast<int64_t>(types[below(3)])}});
    } else if (kind == 1) {
      v = node("Dropout", {whole()}, {{"ratio", 0.25}, {"site", static_cast<int64_t>(i)}, {"rows", dims[0]}});
    } else if (kind == 2) {
      const char* op = kPredicates[below(std::size(kPredicates))];
      v = find_functor(op)->arity == 1 ? node(op, {whole()}) : node(op, {whole(), any(floats)});
      bools.push_back(v);
      continue;
    } else if (kind == 3 && !bools.empty()) {
      v = below(3) ? node("Where", {any(bools), whole(), any(floats)})
                   : node("Cast", {any(bools)}, {{"to", int64_t{0}}});
    } else if (kind == 4 && !bools.empty()) {
      bools.push_back(below(2) ? node("Not", {any(bools)}) : node("And", {any(bools), any(bools)}));
      continue;
    } else if (kind == 5 && same(floats.back())) {
      v = node("ReduceSum", {whole()},
               {{"axes", std::vector<int64_t>{static_cast<int64_t>(dims.size()) - 1}}, {"keepdims", int64_t{1}}});
    } else {
      const char* op = kOperators[below(std::size(kOperators))];
      std::vector<ValueId> in = {whole()};
      while (in.size() < find_functor(op)->arity) in.push_back(any(floats));
      v = node(op, in, {{"alpha", 0.5}, {"min", -0.75}, {"max", 1.5}});
    }
    if (is_float(graph.value(v).dtype) && below(2)) graph.set_dtype(v, types[below(3)]);
    floats.push_back(v);
  }
  for (size_t i = 0; i < 4; ++i) graph.outputs.push_back({cat("y", i), i == 0 ? floats.back() : whole()});
  // Column sums of stored results, which may be fused with the kernel that stores them.
  std::vector<int64_t> leading;
  for (size_t d = 0; d + 1 < dims.size(); ++d) leading.push_back(static_cast<int64_t>(d));
  for (size_t i = 0; i < 3 && !leading.empty(); ++i) {
    const ValueId x = graph.outputs[1 + i].value;
    const ValueId v = node("ReduceSum", {x}, {{"axes", leading}, {"keepdims", static_cast<int64_t>(below(2))}});
    if (below(2)) graph.set_dtype(v, types[below(3)]);
    graph.outputs.push_back({cat("s", i), v});
  }
  if (!bools.empty()) graph.outputs.push_back({"b", bools.back()});
}

std::vector<HostTensor> RandomGraph::run(const Graph& g, Device& device) const {
  ProgramOptions o;
  o.device = &device;
  const std::unique_ptr<Arena> arena = device.make_arena();
  o.arena = arena.get();
  o.poison = true;
  const RunState state{11, 5, 3};
  o.state = &state;
  Program p(std::make_shared<Graph>(g), o);
  for (const auto& [name, t] : inputs_) {
    if (p.has_input(name)) p.set_input(name, t);
  }
  p.run();
  std::vector<HostTensor> out;
  for (const auto& y : g.outputs) out.push_back(p.read(y.name));
  return out;
}

}  // namespace amp::test
