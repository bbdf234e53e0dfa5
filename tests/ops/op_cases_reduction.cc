// Cases of operators that sum: matrix products, reductions, normalizations, softmax, losses.
#include "tests/ops/op_cases.h"

namespace amp::test {

namespace {

using Ints = std::vector<int64_t>;

OpCase fixed(OpCase c) {
  c.finite_differences = false;
  for (Operand& o : c.in) o.role = o.role == Role::value ? Role::held : o.role;
  return c;
}

void products(OpSpecs& s) {
  const auto matmul = [](Dims a, Dims b, int64_t ta = 0, int64_t tb = 0, double alpha = 1) {
    return OpCase{{{a}, {b}}, {{"transA", ta}, {"transB", tb}, {"alpha", alpha}}};
  };
  s["MatMul"].cases = {matmul({2, 3}, {3, 4}),
                       matmul({3, 2}, {3, 4}, 1, 0),
                       matmul({2, 3}, {4, 3}, 0, 1),
                       matmul({3, 2}, {4, 3}, 1, 1, 0.5),
                       matmul({2, 3, 4}, {4, 5}),
                       matmul({2, 3, 4}, {5, 4}, 0, 1),
                       matmul({2, 4, 3}, {4, 5}, 1, 0),
                       matmul({3, 4}, {2, 4, 5}),
                       matmul({2, 3, 4}, {2, 4, 2}),
                       matmul({2, 3, 4}, {2, 5, 4}, 0, 1, 0.125),
                       matmul({2, 1, 3, 4}, {1, 3, 4, 2}),
                       matmul({3, 1, 4}, {2, 1, 4, 2}),
                       matmul({2, 1, 2, 3, 2}, {1, 2, 2, 2, 3}),
                       matmul({1, 1}, {1, 1}),
                       matmul({0, 3}, {3, 4}),
                       matmul({2, 0}, {0, 4}),
                       matmul({2, 3, 0}, {0, 4}),
                       matmul({2, 3, 4}, {4, 0}),
                       matmul({0, 3, 4}, {0, 4, 2}),
                       matmul({150, 130}, {130, 120}),
                       matmul({3, 200}, {200, 3000}),
                       matmul({16, 40, 50}, {16, 60, 50}, 0, 1)};
  for (OpCase c : {matmul({2, 3}, {3, 4}), matmul({2, 3, 4}, {4, 5}), matmul({3, 2}, {4, 3}, 1, 1, 0.5),
                   matmul({2, 0}, {0, 4}), matmul({150, 130}, {130, 120}), matmul({3, 200}, {200, 3000})}) {
    const Dims w = c.in[1].dims;
    c.in.push_back({{c.attrs.i("transB", 0) ? w[0] : w[1]}});  // a bias
    s["MatMul"].cases.push_back(c);
  }
  const auto with_sums = [&](Dims a, Dims b, int64_t ta, int64_t tb, int64_t of) {
    return fixed({{{a}, {b}}, {{"transA", ta}, {"transB", tb}, {"of", of}}});
  };
  s["MatMulBiasGrad"].cases = {with_sums({5, 3}, {5, 4}, 1, 0, 1),         with_sums({5, 3}, {5, 4}, 1, 0, 0),
                               with_sums({3, 5}, {5, 4}, 0, 0, 1),         with_sums({5, 3}, {4, 5}, 1, 1, 0),
                               with_sums({0, 3}, {0, 4}, 1, 0, 1),         with_sums({5, 0}, {5, 4}, 1, 0, 1),
                               with_sums({5, 3}, {5, 0}, 1, 0, 0),         with_sums({1, 1}, {1, 1}, 1, 0, 0),
                               with_sums({130, 150}, {130, 120}, 1, 0, 1), with_sums({700, 33}, {700, 260}, 1, 0, 0),
                               with_sums({3000, 8}, {3000, 5}, 1, 0, 1)};
  for (OpCase c : {with_sums({5, 3}, {5, 6}, 1, 0, 1), with_sums({5, 6}, {5, 4}, 1, 0, 0),
                   with_sums({3, 5}, {5, 12}, 0, 0, 1), with_sums({5, 12}, {4, 5}, 1, 1, 0),
                   with_sums({0, 3}, {0, 6}, 1, 0, 1), with_sums({300, 40}, {300, 96}, 1, 0, 1)}) {
    c.attrs.set("parts", int64_t{3});
    s["MatMulBiasGrad"].cases.push_back(c);
  }
  for (OpCase c : {matmul({2, 3}, {3, 4}), matmul({2, 3, 4}, {4, 5}), matmul({3, 2}, {4, 3}, 1, 1, 0.5),
                   matmul({0, 3}, {3, 4}), matmul({2, 3, 4}, {2, 4, 2}), matmul({60, 40}, {50, 40}, 0, 1)}) {
    const Dims a = c.in[0].dims, w = c.in[1].dims;
    Dims y = a;
    y.back() = c.attrs.i("transB", 0) ? w[w.size() - 2] : w.back();
    if (c.attrs.i("transA", 0)) y = {a[1], y.back()};
    OpCase grad = fixed(c);
    grad.in.push_back({y, uniform(-2, 2), Role::held});
    s["MatMulGeluGrad"].cases.push_back(grad);
    if (w.size() == 2) c.in.push_back({{y.back()}});
    s["MatMulGelu"].cases.push_back(fixed(c));
  }
  for (const char* op : {"MatMulGelu", "MatMulGeluGrad"}) {
    s[op].inner_steps = 8;
    s[op].fp32_tolerance = 1e-5;
  }
  for (const char* op : {"MatMul", "MatMulBiasGrad"}) s[op].fp32_tolerance = 4e-6, s[op].reordered = true;
}

void reductions(OpSpecs& s) {
  struct Shape {
    Dims dims;
    Ints axes;
  };
  const std::vector<Shape> shapes = {{{5}, {0}},
                                     {{3, 4}, {0}},
                                     {{3, 4}, {1}},
                                     {{3, 4}, {0, 1}},
                                     {{2, 3, 4}, {1}},
                                     {{2, 3, 4}, {0, 2}},
                                     {{2, 3, 4}, {1, 2}},
                                     {{2, 1, 4}, {0, 2}},
                                     {{2, 3, 2, 2}, {1, 3}},
                                     {{2, 2, 1, 2, 2}, {0, 1, 4}},
                                     {{3, 1}, {1}},
                                     {{1}, {0}},
                                     {{37}, {0}},
                                     {{3, 0}, {0}}};
  const std::vector<Shape> large = {{{300, 257}, {0}}, {{300, 257}, {1}}, {{40, 31, 60}, {0, 2}}};
  const auto all = [&](const Draw& x, bool smooth, bool empty) {
    OpSpec r;
    for (const int64_t keep : {0, 1}) {
      for (const Shape& c : shapes) r.cases.push_back({{{c.dims, x}}, {{"axes", c.axes}, {"keepdims", keep}}});
    }
    for (const Shape& c : large)
      r.cases.push_back({{{c.dims, x}}, {{"axes", c.axes}, {"keepdims", int64_t{1}}}, {0}, smooth});
    // A sum of no elements.
    if (empty) r.cases.push_back({{{{3, 0}, x}}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}});
    r.fp32_tolerance = 1e-5;
    return r;
  };
  s["ReduceSum"] = all(uniform(-2, 2), true, true);
  s["ReduceMax"] = s["ReduceMin"] = all(distinct(), false, false);
  s["ReduceProd"] = all(uniform(0.97, 1.03), true, true);
  s["ReduceProd"].fp32_tolerance = 4e-5;  // a product of 300 elements rounds 300 times
  const auto scan = [](Dims d, int64_t axis, int64_t exclusive, int64_t reverse) {
    return OpCase{{{d}}, {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}}};
  };
  s["CumSum"].cases = {scan({6}, 0, 0, 0),       scan({6}, 0, 1, 0),    scan({3, 4}, 1, 0, 1),  scan({3, 4}, 0, 1, 1),
                       scan({2, 3, 2}, 1, 0, 0), scan({2, 0}, 1, 0, 0), scan({40, 50}, 1, 0, 0)};
  const auto matrices = [](Dims batch, int64_t n) {
    batch.insert(batch.end(), {n, n});
    return OpCase{{{std::move(batch), uniform(-1, 1)}}, {}};
  };
  s["Det"].cases = {matrices({}, 1),        matrices({}, 2),  matrices({}, 3),
                    matrices({}, 5),        matrices({4}, 2), matrices({2, 3}, 3),
                    matrices({1, 2, 2}, 2), matrices({0}, 3), fixed(matrices({400}, 3))};
  for (const OpCase& c : s["Det"].cases) {
    const Dims& d = c.in[0].dims;
    s["DetGrad"].cases.push_back(fixed({{{d, uniform(-1, 1)}, {Dims(d.begin(), d.end() - 2), uniform(-1, 1)}}, {}}));
  }
  for (const char* op : {"Det", "DetGrad"}) s[op].fp32_tolerance = 1e-5;
  for (const char* op : {"ArgMax", "ArgMin"}) {
    for (const int64_t keep : {0, 1}) {
      const Attrs a{{"axis", int64_t{1}}, {"keepdims", keep}, {"select_last_index", keep}};
      s[op].cases.push_back(fixed({{{{3, 4}, distinct()}}, a}));
      s[op].cases.push_back(fixed({{{{2, 3, 2}, lattice(1)}}, a}));  // elements have ties
      s[op].cases.push_back(fixed({{{{70, 90}, distinct()}}, a}));
    }
  }
}

void normalizations(OpSpecs& s) {
  const Draw scale = uniform(0.5, 1.5);
  const auto norm = [&](Dims d, int64_t n, int64_t rms, bool bias) {
    OpCase c{{{d}, {{n}, scale}}, {{"n", n}, {"epsilon", 1e-5}, {"rms", rms}}};
    if (bias) c.in.push_back({{n}});
    return c;
  };
  s["LayerNorm"].cases = {norm({2, 5}, 5, 0, true),       norm({2, 5}, 5, 0, false),   norm({2, 5}, 5, 1, false),
                          norm({3, 2, 4}, 4, 0, true),    norm({3, 2, 4}, 8, 0, true), norm({7}, 7, 0, true),
                          norm({0, 5}, 5, 0, true),       norm({2, 33}, 33, 0, true),  norm({400, 130}, 130, 0, true),
                          norm({400, 130}, 130, 1, false)};
  for (const int64_t rms : {0, 1}) {
    for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{3, 5}, {0, 5}, {400, 130}}) {
      const Attrs a{{"n", n}, {"epsilon", 1e-5}, {"rms", rms}};
      const Operand x{{rows, n}}, dy{{rows, n}}, mean{{rows}, rms ? uniform(0, 0) : uniform(-1, 1), Role::stat},
          rstd{{rows}, scale, Role::stat};
      s["LayerNormGrad"].cases.push_back(fixed({{x, {{n}, scale}, mean, rstd, dy}, a}));
      s["LayerNormGradWeights"].cases.push_back(fixed({{x, mean, rstd, dy}, a}));
      const Operand none{{}, uniform(0, 1), Role::absent};
      for (const Operand& more : {none, dy}) {
        s["NormSums"].cases.push_back(fixed({{x, mean, rstd, dy, more}, a}));
        s["NormSums"].cases.push_back(fixed({{x, mean, rstd, dy, more, x}, a}));
      }
    }
  }
  // The cases of residual connections vary dropout, a bias of the branch, types of intermediate results, and a 16-bit
  // copy.
  const auto type = [](DType t) { return static_cast<int64_t>(t); };
  struct Residual {
    Dims dims;
    int64_t n, rms, rows;  // rows: samples of dropout; 0: no dropout
    bool bias, branch_bias, copy;
    DType rounds;
  };
  for (const Residual& q : {Residual{{3, 5}, 5, 0, 0, true, false, false, DType::f32},
                            Residual{{0, 5}, 5, 0, 0, true, true, true, DType::f32},
                            Residual{{6, 8}, 8, 0, 2, true, true, true, DType::f32},
                            Residual{{6, 8}, 8, 1, 16, false, true, false, DType::f16},
                            Residual{{2, 3, 7}, 7, 0, 3, false, false, true, DType::bf16},
                            Residual{{4, 3, 2, 6}, 12, 1, 4, false, false, false, DType::f32},
                            Residual{{30, 132}, 132, 0, 5, true, true, true, DType::f32},
                            Residual{{3, 1500}, 1500, 0, 3, true, false, true, DType::f32},
                            Residual{{4, 768}, 768, 0, 2, true, true, false, DType::f32},
                            Residual{{3, 1000}, 1000, 0, 3, true, false, true, DType::f32}}) {
    Attrs a{{"n", q.n}, {"epsilon", 1e-5}, {"rms", q.rms}};
    if (q.rows > 0) {
      a.set("ratio", 0.25);
      a.set("site", int64_t{7});
      a.set("rows", q.rows);
    }
    if (q.copy) a.set("copy", type(DType::f32));
    Attrs back = a;
    a.set("sum", type(q.rounds));
    a.set("dropped", type(q.rounds));
    back.set("norm", type(q.rounds));
    const int64_t rows = numel(q.dims) / q.n;
    const Operand t{q.dims}, w{{q.n}, scale}, v{{q.n}}, none{{}, uniform(0, 1), Role::absent};
    const Operand mean{{rows}, q.rms ? uniform(0, 0) : uniform(-1, 1), Role::stat}, rstd{{rows}, scale, Role::stat};
    s["AddNorm"].cases.push_back(fixed({{t, t, w, q.bias ? v : none, q.branch_bias ? v : none}, a}));
    s["AddNormGrad"].cases.push_back(fixed({{t, w, mean, rstd, t, q.branch_bias ? t : none}, back}));
    s["AddNormGrad"].cases.push_back(fixed({{t, w, mean, rstd, t, q.branch_bias ? t : none, none, t}, back}));
    for (const int64_t summed : {-1, 0, q.rows > 0 || q.copy ? 1 : 0}) {
      Attrs sums = back;
      sums.set("first_sum", int64_t{1} + (q.rows > 0) + q.copy);
      if (summed >= 0) sums.set("summed", summed);
      s["AddNormGradSums"].cases.push_back(fixed({{t, w, mean, rstd, t, q.branch_bias ? t : none, none, t}, sums}));
    }
    if (q.rows == 0 || rows == 0) continue;
    const Operand tokens{{rows}, some_of(2 * rows), Role::integer};  // positions of the packed tokens
    a.set("length", int64_t{5});
    back.set("length", int64_t{5});
    s["AddNorm"].cases.push_back(fixed({{t, t, w, q.bias ? v : none, q.branch_bias ? v : none, tokens}, a}));
    s["AddNormGrad"].cases.push_back(fixed({{t, w, mean, rstd, t, q.branch_bias ? t : none, tokens}, back}));
  }
  for (const char* op : {"AddNorm", "AddNormGrad", "AddNormGradSums"}) {
    s[op].inner_steps = 4;
    s[op].fp32_tolerance = 1e-5;
  }
  s["LayerNorm"].fp32_tolerance = s["LayerNormGradWeights"].fp32_tolerance = s["NormSums"].fp32_tolerance = 1e-5;
  const Attrs eps{{"epsilon", 1e-4}};
  for (const Dims& d : {Dims{4, 3}, Dims{2, 3, 2, 2}, Dims{2, 3, 5}, Dims{1, 2, 2, 2, 2}, Dims{24, 7, 13, 17}}) {
    const Dims c{d[1]};
    const Operand x{d}, w{c, scale}, b{c}, mean{c, uniform(-1, 1), Role::held}, var{c, scale, Role::held};
    s["BatchNorm"].cases.push_back({{x, w, b, mean, var}, eps});
    s["BatchNormTrain"].cases.push_back({{x, w, b}, eps});
    for (const int64_t train : {0, 1}) {
      s["BatchNormGrad"].cases.push_back(fixed({{{d}, x, w, mean, var}, {{"epsilon", 1e-4}, {"train", train}}}));
    }
  }
  for (const char* op : {"BatchNorm", "BatchNormTrain", "BatchNormGrad"}) s[op].fp32_tolerance = 1e-5;
}

void softmaxes(OpSpecs& s) {
  for (const Dims& d : {Dims{5}, Dims{1}, Dims{3, 4}, Dims{2, 3, 4}, Dims{2, 1, 2, 3}, Dims{1, 2, 1, 2, 2}, Dims{0, 4},
                        Dims{3, 0}, Dims{2, 33}, Dims{400, 130}}) {
    for (const char* op : {"Softmax", "LogSoftmax"}) s[op].cases.push_back({{{d, uniform(-3, 3)}}, {}});
    s["SoftmaxGrad"].cases.push_back(fixed({{{d, uniform(0, 1)}, {d}}, {}}));
    s["LogSoftmaxGrad"].cases.push_back(fixed({{{d, uniform(-3, 0)}, {d}}, {}}));
  }
  for (const char* op : {"Softmax", "LogSoftmax", "SoftmaxGrad", "LogSoftmaxGrad"}) s[op].fp32_tolerance = 1e-5;
  const Attrs ignore{{"ignore_index", int64_t{-1}}};
  for (const auto& [rows, classes] :
       {std::pair<int64_t, int64_t>{4, 3}, {1, 1}, {7, 2}, {0, 3}, {19, 33}, {500, 130}}) {
    const Operand x{{rows, classes}}, labels{{rows}, integers(rows > 4 ? -1 : 0, classes - 1), Role::integer};
    s["CrossEntropy"].cases.push_back({{x, labels}, ignore});
    s["CrossEntropyGrad"].cases.push_back(fixed({{x, labels, {{}, uniform(0.5, 2), Role::stat}}, ignore}));
  }
  s["CrossEntropyGrad"].fp32_tolerance = 4e-6;
}

}  // namespace

void add_reduction_cases(OpSpecs& s) {
  products(s);
  reductions(s);
  normalizations(s);
  softmaxes(s);
}

}  // namespace amp::test
