// Small networks as text (tests/graph/core_text.h), each with a scalar output "loss", and their training graphs.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "graph/autodiff.h"
#include "graph/passes.h"
#include "tests/graph/core_text.h"

namespace amp::test {

struct Net {
  std::string name, text;
};

inline const std::vector<Net>& small_nets() {
  static const std::vector<Net> nets = {{"mlp", R"(
         input x 32 20
         input label i64 32
         param W1 20 40
         param b1 40
         param W2 10 40
         param b2 10
         h = MatMul(x, W1)
         h = Add(h, b1)
         h = Relu(h)
         y = MatMul(h, W2) {transB=1}
         y = Add(y, b2)
         loss = CrossEntropy(y, label) {ignore_index=-100}
         output y
         output loss)"},
                                        {"attention", R"(
         input ids i64 4 6
         input label i64 24
         input mask 4 1 1 6
         param table 11 16
         param gamma 16
         param beta 16
         param Wq 16 16
         param Wk 16 16
         param Wv 16 16
         param Wo 16 16
         param U 16 32
         param D 32 16
         e = GatherRows(table, ids) {outer=1; n=11; inner=16; dims=[4 6 16]}
         n, m, r = LayerNorm(e, gamma, beta) {n=16; epsilon=1e-5; rms=0}
         q = MatMul(n, Wq)
         q = Reshape(q) {dims=[4 6 2 8]}
         q = Transpose(q) {perm=[0 2 1 3]}
         k = MatMul(n, Wk)
         k = Reshape(k) {dims=[4 6 2 8]}
         k = Transpose(k) {perm=[0 2 3 1]}
         v = MatMul(n, Wv)
         v = Reshape(v) {dims=[4 6 2 8]}
         v = Transpose(v) {perm=[0 2 1 3]}
         s = MatMul(q, k) {alpha=0.35355339}
         s = Add(s, mask)
         p = Softmax(s)
         o = MatMul(p, v)
         o = Transpose(o) {perm=[0 2 1 3]}
         o = Reshape(o) {dims=[4 6 16]}
         o = MatMul(o, Wo)
         e = Add(e, o)
         h = MatMul(e, U)
         h = Gelu(h)
         h = MatMul(h, D)
         e = Add(e, h)
         # the head is the embedding table again
         y = MatMul(e, table) {transB=1}
         y = Reshape(y) {dims=[24 11]}
         loss = CrossEntropy(y, label) {ignore_index=3}
         output y
         output loss)"},
                                        {"spelled layer norm", R"(
         input x 6 5 12
         param scale 12
         param bias 12
         const rate = 0.08333333
         const eps = 1e-5
         s = ReduceSum(x) {axes=[2]; keepdims=1}
         mean = Mul(s, rate)
         d = Sub(x, mean)
         q = Mul(d, d)
         v = ReduceSum(q) {axes=[2]; keepdims=1}
         v = Mul(v, rate)
         v = Add(v, eps)
         sd = Sqrt(v)
         y = Div(d, sd)
         y = Mul(y, scale)
         y = Add(y, bias)
         z = Mul(y, y)
         a, b = Split(z) {axis=1; sizes=[2 3]}
         a = Exp(a)
         c = Concat(b, a) {axis=1}
         c = Max(c, x)
         loss = ReduceSum(c) {axes=[0 1 2]; keepdims=0}
         output c
         output loss)"},
                                        {"conv net", R"(
         input x 4 3 12 12
         input label i64 4
         param K1 6 3 3 3
         param c1 6
         param g 6
         param h 6
         param K2 8 6 3 3
         param W 8 5
         y = Conv(x, K1, c1) {strides=[1 1]; dilations=[1 1]; pads=[1 1 1 1]; group=1}
         y, m, v = BatchNormTrain(y, g, h) {epsilon=1e-5}
         y = Relu(y)
         y, tap = MaxPool(y) {kernel=[2 2]; strides=[2 2]; dilations=[1 1]; pads=[0 0 0 0]; dims=[4 6 6 6]}
         y = Conv(y, K2) {strides=[2 2]; dilations=[1 1]; pads=[1 1 1 1]; group=1}
         y = HardSwish(y)
         y = AveragePool(y) {kernel=[3 3]; strides=[1 1]; dilations=[1 1]; pads=[0 0 0 0]; dims=[4 8 1 1]}
         y = Reshape(y) {dims=[4 8]}
         y = MatMul(y, W)
         y = Dropout(y) {ratio=0.25; site=3}
         loss = CrossEntropy(y, label) {ignore_index=-100}
         output y
         output loss)"}};
  return nets;
}

// Returns the graph with the backward pass of `loss` for all parameters. The seed is an input of the graph.
inline Graph training_graph(Graph g, ValueId loss) {
  Builder builder(g, cpu_evaluator());
  std::vector<ValueId> wrt;
  for (int32_t i = 0; i < g.n_values(); ++i) {
    if (g.value(ValueId{i}).kind == ValueKind::param) wrt.push_back(ValueId{i});
  }
  Autodiff ad(builder, wrt);
  const ValueId seed = g.add_input("seed", DType::f32, {});
  ad.seed(loss, seed);
  ad.run();
  for (const ValueId w : wrt) {
    if (const ValueId grad = ad.grad(w)) g.param_grads.push_back({g.value(w).slot, grad});
  }
  return prune(g);
}
inline Graph training_graph(const std::string& text) {
  const CoreText t(text);
  return training_graph(t.graph, t["loss"]);
}

// Returns random values for every input; ids and labels are below 5.
inline std::map<std::string, HostTensor> random_inputs(const Graph& g, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::map<std::string, HostTensor> out;
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    if (v.kind != ValueKind::input) continue;
    std::vector<double> x(static_cast<size_t>(numel(v.dims)));
    for (double& e : x)
      e = is_float(v.dtype) ? static_cast<double>(rng() % 4001) / 1000 - 2 : static_cast<double>(rng() % 5);
    out[v.name] = HostTensor::of<double>(v.dims, x).cast(v.dtype);
  }
  return out;
}
inline std::vector<HostTensor> random_params(const Graph& g, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<HostTensor> out;
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    if (v.kind != ValueKind::param) continue;
    if (static_cast<size_t>(v.slot) >= out.size()) out.resize(static_cast<size_t>(v.slot) + 1);
    std::vector<float> x(static_cast<size_t>(numel(v.dims)));
    for (float& e : x) e = static_cast<float>(rng() % 2001) / 2500 - 0.4f;
    out[static_cast<size_t>(v.slot)] = HostTensor::of<float>(v.dims, x);
  }
  return out;
}

}  // namespace amp::test
