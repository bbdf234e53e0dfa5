// Cases of operators that select elements by value or by coordinates: GridSample, TopK, ScatterElements, Quantize.
#include <cmath>

#include "graph/builder.h"
#include "tests/ops/op_cases.h"

namespace amp::test {

namespace {

OpCase fixed(OpCase c) {  // the case is run, but not differentiated
  c.finite_differences = false;
  for (Operand& o : c.in) o.role = o.role == Role::value ? Role::held : o.role;
  return c;
}

// Returns a case in which every input extent is n, so that the interpolant has kinks at the same
// coordinates in all dimensions.
OpCase sample(Dims x, Dims grid, int64_t mode, int64_t padding, int64_t align) {
  const double n = static_cast<double>(x.back());
  std::vector<double> kinks;
  for (int k = -12; k <= 12; ++k) {
    const double at = mode == 0 ? k + 0.5 : k;  // position of a kink, in elements
    kinks.push_back(align ? 2 * at / (n - 1) - 1 : (2 * at + 1) / n - 1);
    kinks.push_back(k);  // borders are at integers
  }
  return {{{std::move(x)}, {std::move(grid), uniform(-1.9, 1.9, kinks, 0.01)}},
          {{"mode", mode}, {"padding", padding}, {"align", align}}};
}

// Returns Quantize without rounding, with the same clipping: the function whose gradient is passed straight through.
ValueId unrounded(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const ValueId q = b.op("Add", {b.op("Div", {in[0], in[1]}), in[2]});
  return b.op("Clip", {q}, {{"min", a.f("low", 0) - 0.5}, {"max", a.f("high", 0) + 0.5}});
}

}  // namespace

void add_sampling_cases(OpSpecs& s) {
  for (int64_t mode = 0; mode < 3; ++mode) {
    for (int64_t padding = 0; padding < 3; ++padding) {
      for (int64_t align = 0; align < 2; ++align) {
        s["GridSample"].cases.push_back(sample({2, 2, 4, 4}, {2, 2, 3, 2}, mode, padding, align));
      }
    }
    s["GridSample"].cases.push_back(sample({1, 2, 3, 3, 3}, {1, 1, 2, 2, 3}, mode, 0, 0));
    s["GridSample"].cases.push_back(sample({2, 1, 4}, {2, 3, 1}, mode, 2, 1));
  }
  s["GridSample"].cases.push_back(sample({2, 3, 4, 4}, {2, 0, 3, 2}, 1, 0, 0));
  s["GridSample"].cases.push_back(sample({3, 4, 9, 9}, {3, 20, 20, 2}, 1, 0, 0));
  for (const OpCase& c : s["GridSample"].cases) {
    OpCase g = fixed(c);
    Dims y{c.in[0].dims[0], c.in[0].dims[1]};
    y.insert(y.end(), c.in[1].dims.begin() + 1, c.in[1].dims.end() - 1);
    g.in.push_back({y, uniform(-2, 2), Role::held});
    s["GridSampleGrad"].cases.push_back(g);
  }
  for (const char* op : {"GridSample", "GridSampleGrad"}) s[op].fp32_tolerance = 1e-5;

  const auto noise = [](Dims d) {
    return fixed({{{{}, uniform(-2, 0)}, {{}, uniform(1, 2)}}, {{"dims", std::move(d)}, {"site", int64_t{3}}}});
  };
  const auto by_rows = [&](Dims d, int64_t rows) {
    OpCase c = noise(std::move(d));
    c.attrs.set("rows", rows);
    return c;
  };
  s["RandomUniform"].cases = {noise({}),         noise({5}),      noise({2, 0}),      noise({3, 1, 2}),
                              noise({300, 257}), by_rows({4}, 4), by_rows({6, 5}, 3), by_rows({300, 257}, 300)};

  const auto top = [](Dims d, int64_t axis, int64_t k, int64_t largest) {
    return OpCase{{{std::move(d), distinct()}}, {{"axis", axis}, {"k", k}, {"largest", largest}}};
  };
  s["TopK"].cases = {
      top({6}, 0, 3, 1),
      top({6}, 0, 6, 0),
      top({3, 4}, 1, 2, 1),
      top({3, 4}, 0, 2, 0),
      top({2, 5, 3}, 1, 2, 1),
      top({2, 3}, 1, 0, 1),
      top({0, 3}, 1, 2, 1),
      top({1}, 0, 1, 1),
      fixed({{{{7, 9}, lattice(0.5)}}, {{"axis", int64_t{1}}, {"k", int64_t{5}}, {"largest", int64_t{1}}}}),
      fixed(top({90, 60}, 0, 30, 1))};

  const auto replaced = [](Dims x, Dims idx, int64_t axis, int64_t n) {
    return OpCase{{{std::move(x)}, {idx, some_of(n), Role::integer}, {idx}},
                  {{"axis", axis}, {"reduction", int64_t{0}}}};
  };
  s["ScatterElements"].cases = {replaced({5}, {3}, 0, 5),       replaced({2, 6}, {1, 4}, 1, 6),
                                replaced({4, 3}, {3, 1}, 0, 4), replaced({2, 4, 2}, {1, 3, 1}, 1, 4),
                                replaced({5}, {0}, 0, 5),       replaced({5000}, {2000}, 0, 5000)};
  for (int64_t reduction = 1; reduction < 4; ++reduction) {  // indices repeat; elements have no ties
    const auto between = [](int64_t n, Rng& rng) {
      std::vector<double> v = distinct()(n, rng);
      for (double& x : v) x += 0.025;
      return v;
    };
    const auto combined = [&](Dims x, Dims idx, int64_t axis, int64_t n) {
      return OpCase{{{std::move(x), distinct()}, {idx, integers(-n, n - 1), Role::integer}, {idx, between}},
                    {{"axis", axis}, {"reduction", reduction}}};
    };
    for (const OpCase& c : {combined({4, 3}, {5, 3}, 0, 4), combined({2, 4, 2}, {1, 5, 2}, 1, 4),
                            combined({6}, {0}, 0, 6), combined({3}, {9}, 0, 3)})
      s["ScatterElements"].cases.push_back(c);
  }

  // Values that are not near the jumps of rounding, which are at odd eighths for the scale 1/4.
  std::vector<double> jumps;
  for (int k = -41; k <= 41; k += 2) jumps.push_back(k / 8.0);
  const auto quantized = [&](Dims x, Dims scale) {
    return OpCase{{{std::move(x), uniform(-5, 5, jumps, 0.05)},
                   {scale, [](int64_t n, Rng&) { return std::vector<double>(static_cast<size_t>(n), 0.25); }},
                   {scale, integers(-3, 3), Role::held}},
                  {{"low", -10.0}, {"high", 10.0}}};
  };
  s["Quantize"].elementwise = true;
  s["Quantize"].surrogate = unrounded;
  for (const Dims& d : small_shapes()) {
    s["Quantize"].cases.push_back(quantized(d, {}));
    s["Quantize"].cases.push_back(quantized(d, d.empty() ? Dims{} : Dims{d.back()}));
  }
  s["Quantize"].cases.push_back(quantized({300, 257}, {257}));
  s["QuantizeMask"] = s["Quantize"];
  s["QuantizeMask"].surrogate = nullptr;
  for (OpCase& c : s["QuantizeMask"].cases) c = fixed(c);
}

}  // namespace amp::test
