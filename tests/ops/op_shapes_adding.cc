// Cases of reductions, scans, normalizations, softmax and determinants over the table of small shapes, with alternating
// axes and attributes.
#include "tests/ops/op_cases.h"

namespace amp::test {

namespace {

using Ints = std::vector<int64_t>;

void reductions(OpSpecs& s) {
  for (const int64_t keep : {0, 1}) {  // a reduction over no axis, or of a scalar, is the identity
    for (const Dims& d : {Dims{}, Dims{2, 3}}) {
      const Attrs a{{"axes", Ints{}}, {"keepdims", keep}};
      for (const char* op : {"ReduceSum", "ReduceProd"}) s[op].cases.push_back({{{d, uniform(0.9, 1.1)}}, a});
      for (const char* op : {"ReduceMax", "ReduceMin"}) s[op].cases.push_back({{{d, distinct()}}, a});
    }
  }
  for (const int64_t axis : {0, 1, 2, 3, 4}) {
    const Attrs a{{"axes", Ints{axis}}, {"keepdims", axis % 2}};
    for (const Dims& d : {Dims{2, 1, 3, 2, 2}, Dims{2, 3, 2, 0, 2}}) {
      for (const char* op : {"ReduceSum", "ReduceProd"}) s[op].cases.push_back({{{d, uniform(0.9, 1.1)}}, a});
      if (d[static_cast<size_t>(axis)] == 0) continue;  // the extreme of an empty axis is not defined
      for (const char* op : {"ReduceMax", "ReduceMin"}) s[op].cases.push_back({{{d, distinct()}}, a});
    }
  }
}

void norms(OpSpecs& s, const Dims& d, size_t k) {
  const Draw scale = uniform(0.5, 1.5);
  size_t first = d.empty() ? 0 : k % d.size();
  const auto tail = [&] {
    int64_t n = 1;
    for (size_t i = first; i < d.size(); ++i) n *= d[i];
    return n;
  };
  while (tail() == 0) ++first;  // an empty tail: not lowered to LayerNorm
  const int64_t n = tail();
  // Over few elements, 1 / sqrt(var + epsilon) is too steep for differences unless epsilon is large.
  OpCase c{{{d}, {{n}, scale}}, {{"n", n}, {"epsilon", n < 5 ? 0.5 : 1e-5}, {"rms", static_cast<int64_t>(k % 2)}}};
  if (k % 4 < 2) c.in.push_back({{n}});
  s["LayerNorm"].cases.push_back(c);
  if (d.size() < 2) return;
  const Dims channels{d[1]};
  const Operand w{channels, scale}, b{channels};
  s["BatchNorm"].cases.push_back(
      {{{d}, w, b, {channels, uniform(-1, 1), Role::held}, {channels, scale, Role::held}}, {{"epsilon", 1e-4}}});
  s["BatchNormTrain"].cases.push_back({{{d}, w, b}, {{"epsilon", 0.5}}});
}

void losses(OpSpecs& s) {
  for (const int64_t rows : {0, 1, 2, 3, 6}) {
    for (const int64_t classes : {1, 2, 3, 5}) {
      // -1 among the labels: ignored rows.
      s["CrossEntropy"].cases.push_back(
          {{{{rows, classes}}, {{rows}, integers(-1, classes - 1), Role::integer}}, {{"ignore_index", int64_t{-1}}}});
    }
  }
  for (const int64_t ignored : {0, 2}) {
    s["CrossEntropy"].cases.push_back({{{{5, 3}}, {{5}, integers(0, 2), Role::integer}}, {{"ignore_index", ignored}}});
  }
}

// Draws square matrices far from singular, whose inverses change smoothly.
Draw regular(int64_t n) {
  return [n](int64_t elements, Rng& rng) {
    std::vector<double> x = uniform(-1, 1)(elements, rng);
    for (int64_t e = 0; e < elements; ++e) {
      if (e % (n * n) % (n + 1) == 0) x[static_cast<size_t>(e)] += x[static_cast<size_t>(e)] < 0 ? -1.5 : 1.5;
    }
    return x;
  };
}

void square_matrices(OpSpecs& s) {
  for (const Dims& batch : {Dims{}, Dims{1}, Dims{3}, Dims{0}, Dims{2, 2}, Dims{2, 1, 2}, Dims{1, 0, 2}}) {
    for (const int64_t n : {0, 1, 2, 3, 4}) {
      Dims d = batch;
      d.insert(d.end(), {n, n});
      s["Det"].cases.push_back({{{d, uniform(-1, 1)}}, {}});
      s["Inverse"].cases.push_back({{{d, regular(n)}}, {}});
    }
  }
  OpCase many{{{{400, 3, 3}, regular(3)}}, {}};
  many.finite_differences = false;
  s["Inverse"].cases.push_back(many);
  s["Inverse"].cases.push_back({{{{7, 7}, regular(7)}}, {}});
}

}  // namespace

void add_adding_shapes(OpSpecs& s) {
  reductions(s);
  losses(s);
  square_matrices(s);
  size_t k = 0;
  for (const Dims& d : small_shapes()) {
    norms(s, d, k);
    for (const size_t axis : axes_in_turn(d, k)) {
      s["CumSum"].cases.push_back({{{d}},
                                   {{"axis", static_cast<int64_t>(axis)},
                                    {"exclusive", static_cast<int64_t>(k / 2 % 2)},
                                    {"reverse", static_cast<int64_t>(k % 2)}}});
    }
    for (const char* op : {"Softmax", "LogSoftmax"}) {
      if (!d.empty()) s[op].cases.push_back({{{d, uniform(-3, 3)}}, {}});
    }
    ++k;
  }
  // A norm over one element has a zero gradient of x, because terms cancel. fp32 leaves a rounding error.
  s["LayerNorm"].fp32_floor = s["BatchNormTrain"].fp32_floor = 1e-2;
}

}  // namespace amp::test
