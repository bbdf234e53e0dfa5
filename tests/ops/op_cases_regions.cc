// Cases of RoiAlign, BitCast and rounding operators that pass gradients.
#include <algorithm>

#include "graph/builder.h"
#include "tests/ops/op_cases.h"

namespace amp::test {

namespace {

OpCase fixed(OpCase c) {  // the case is run, but not differentiated
  c.finite_differences = false;
  for (Operand& o : c.in) o.role = o.role == Role::value ? Role::held : o.role;
  return c;
}

// Returns the function whose gradient RoundStraight passes on.
ValueId identity(Builder& b, const std::vector<ValueId>& in, const Attrs&) {
  return b.op("Mul", {b.op("Add", {in[0], in[0]}), b.scalar(0.5, b.dtype(in[0]))});
}

// Draws regions (x1, y1, x2, y2) over and beyond an image of this extent. In every third one the corners are
// swapped, so that its size counts as 0 or 1.
Draw regions(double extent) {
  return [extent](int64_t n, Rng& rng) {
    std::vector<double> v(static_cast<size_t>(n));
    for (double& x : v) x = (1.3 * uniform01(rng) - 0.15) * extent;
    for (size_t r = 0; r + 3 < v.size(); r += 4) {
      for (size_t k = 0; k < 2; ++k) {
        if ((v[r + k] > v[r + k + 2]) != (r / 4 % 3 == 2)) std::swap(v[r + k], v[r + k + 2]);
      }
    }
    return v;
  };
}

struct Pool {
  int64_t height, width, sampling = 0, half = 1, max = 0;
  double scale = 1;
};
OpCase roi(Dims x, int64_t count, const Pool& p) {
  const Draw values = p.max ? distinct(0.05) : uniform(-2, 2);
  const double extent = static_cast<double>(std::max(x[2], x[3])) / p.scale;
  const int64_t images = x[0];
  return {{{std::move(x), values},
           {{count, 4}, regions(extent), Role::held},
           {{count}, integers(0, std::max<int64_t>(images - 1, 0)), Role::integer}},
          {{"height", p.height},
           {"width", p.width},
           {"sampling", p.sampling},
           {"half", p.half},
           {"max", p.max},
           {"scale", p.scale}}};
}

}  // namespace

void add_region_cases(OpSpecs& s) {
  for (int64_t max = 0; max < 2; ++max) {
    for (int64_t half = 0; half < 2; ++half) {
      for (const int64_t sampling : {int64_t{0}, int64_t{1}, int64_t{2}}) {
        const OpCase wide = roi({2, 2, 5, 6}, 4, {2, 3, sampling, half, max, 1});
        // With so many candidates for a maximum, a finite difference would exchange two of them.
        s["RoiAlign"].cases.push_back(max ? fixed(wide) : wide);
        s["RoiAlign"].cases.push_back(roi({1, 1, 6, 4}, 3, {3, 1, sampling, half, max, 0.25}));
      }
    }
  }
  for (const auto& [x, count] : std::vector<std::pair<Dims, int64_t>>{{{1, 1, 1, 1}, 2},
                                                                      {{1, 2, 1, 7}, 2},
                                                                      {{3, 1, 4, 1}, 5},
                                                                      {{1, 3, 4, 4}, 0},
                                                                      {{2, 0, 4, 4}, 2},
                                                                      {{2, 2, 9, 3}, 6}}) {
    s["RoiAlign"].cases.push_back(roi(x, count, {2, 2, 2, 1, 0, 1}));
  }
  s["RoiAlign"].cases.push_back(roi({1, 2, 8, 8}, 2, {1, 1, 0, 1, 0, 1}));
  s["RoiAlign"].cases.push_back(fixed(roi({2, 16, 20, 20}, 9, {7, 7, 2, 1, 0, 0.5})));
  s["RoiAlign"].cases.push_back(fixed(roi({2, 16, 20, 20}, 9, {5, 6, 0, 0, 1, 1})));
  for (const OpCase& c : s["RoiAlign"].cases) {
    OpCase g = fixed(c);
    g.in.insert(g.in.begin(), {{c.in[1].dims[0], c.in[0].dims[1], c.attrs.i("height", 1), c.attrs.i("width", 1)},
                               uniform(-2, 2),
                               Role::held});
    s["RoiAlignGrad"].cases.push_back(g);
  }
  for (const char* op : {"RoiAlign", "RoiAlignGrad"}) s[op].fp32_tolerance = 1e-5;

  const std::vector<Dims> shapes{{}, {1}, {7}, {0}, {3, 4}, {2, 0, 3}, {2, 3, 4}, {1, 5}, {5, 1}, {2, 3, 2, 2}, {33}};
  const auto code = [](DType t) { return static_cast<int64_t>(t); };
  for (const Dims& d : shapes) {
    for (const DType to : {DType::u64, DType::i64}) {
      s["BitCast"].cases.push_back(
          fixed({{{d, integers(-1000, 1000), Role::integer}}, {{"to", code(to)}, {"bytes", int64_t{8}}}}));
    }
  }
  s["BitCast"].cases.push_back(
      fixed({{{{40, 60}, integers(0, 255), Role::byte}}, {{"to", code(DType::i8)}, {"bytes", int64_t{1}}}}));

  s["RoundStraight"].elementwise = true;
  s["RoundStraight"].surrogate = identity;
  const std::vector<double> jumps{-2.5, -1.5, -0.5, 0.5, 1.5, 2.5};
  // With one rank, the sum is the identity.
  for (const Dims& d : small_shapes()) s["RanksSum"].cases.push_back({{{d}}, {}});
  s["RanksSum"].cases.push_back(fixed({{{{300, 257}}}, {}}));
  for (const Dims& d : small_shapes()) s["RoundStraight"].cases.push_back({{{d, uniform(-2.4, 2.4, jumps)}}, {}});
  s["RoundStraight"].cases.push_back(fixed({{{{300, 20}, uniform(-9, 9)}}, {}}));
}

}  // namespace amp::test
