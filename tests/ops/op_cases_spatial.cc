// Cases of convolutions and pools, for the properties that every operator must have. spatial_test.cc compares more
// cases with PyTorch.
#include "tests/ops/op_cases.h"

namespace amp::test {

namespace {

using Ints = std::vector<int64_t>;

struct Window {
  Ints strides, dilations, pads;
  int64_t group = 1;
};

// Adds y = Conv(x, w, bias) and both of its gradient operators, on the same shapes.
void conv(OpSpecs& s, const Dims& x, const Dims& w, const Dims& y, const Window& v, bool bias) {
  const Attrs a{{"strides", v.strides}, {"dilations", v.dilations}, {"pads", v.pads}, {"group", v.group}};
  const auto with_dims = [&](const Dims& d) {
    Attrs b = a;
    b.set("dims", d);
    return b;
  };
  OpCase c{{{x}, {w}}, a};
  if (bias) c.in.push_back({{w[0]}});
  s["Conv"].cases.push_back(c);
  s["ConvGradX"].cases.push_back({{{y}, {w}}, with_dims(x)});
  s["ConvGradW"].cases.push_back({{{x}, {y}}, with_dims(w)});
}

// Returns the number of outputs along axis i for an extent n.
int64_t outputs(const Window& v, size_t i, int64_t n, int64_t kernel, bool ceil) {
  const int64_t room = n + v.pads[i] + v.pads[v.strides.size() + i] - (kernel - 1) * v.dilations[i] - 1;
  return (room + (ceil ? v.strides[i] - 1 : 0)) / v.strides[i] + 1;
}

void small_convolutions(OpSpecs& s) {
  struct Row {
    Dims x, w;
    Window window;
  };
  for (const Row& r :
       std::vector<Row>{{{1, 1, 4}, {1, 1, 2}, {{1}, {1}, {0, 0}}},
                        {{2, 2, 5}, {2, 2, 3}, {{2}, {1}, {1, 1}}},
                        {{1, 4, 6}, {4, 2, 2}, {{1}, {2}, {0, 1}, 2}},
                        {{0, 2, 5}, {2, 2, 3}, {{1}, {1}, {0, 0}}},
                        {{2, 3, 4}, {3, 1, 1}, {{3}, {1}, {0, 0}, 3}},
                        {{1, 2, 3, 4}, {1, 2, 2, 2}, {{1, 1}, {1, 1}, {1, 0, 0, 2}}},
                        {{2, 3, 2, 2}, {3, 1, 2, 2}, {{1, 1}, {1, 1}, {1, 1, 0, 0}, 3}},
                        {{1, 1, 1, 5}, {2, 1, 1, 3}, {{1, 2}, {1, 1}, {0, 1, 0, 1}}},
                        {{1, 2, 5, 1}, {2, 2, 3, 1}, {{2, 1}, {1, 1}, {0, 0, 0, 0}}},
                        {{3, 1, 4, 4}, {2, 1, 1, 1}, {{2, 2}, {1, 1}, {0, 0, 0, 0}}},
                        {{1, 1, 2, 2}, {1, 1, 3, 3}, {{1, 1}, {1, 1}, {1, 1, 1, 1}}},
                        {{1, 1, 5, 5}, {1, 1, 2, 3}, {{2, 1}, {3, 2}, {1, 1, 0, 0}}},
                        {{0, 2, 3, 3}, {4, 1, 2, 2}, {{1, 1}, {1, 1}, {0, 0, 0, 0}, 2}},
                        {{1, 2, 2, 3, 3}, {2, 1, 1, 2, 2}, {{1, 1, 2}, {1, 1, 1}, {0, 0, 0, 0, 1, 1}, 2}},
                        {{0, 1, 2, 2, 2}, {1, 1, 1, 1, 2}, {{1, 1, 1}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}}},
                        {{2, 1, 3, 2, 2}, {1, 1, 2, 1, 2}, {{1, 1, 1}, {2, 1, 1}, {0, 0, 0, 0, 0, 0}}},
                        {{1, 1, 2, 2, 2}, {3, 1, 1, 1, 1}, {{1, 2, 1}, {1, 1, 1}, {1, 0, 0, 1, 0, 0}}}}) {
    Dims y{r.x[0], r.w[0]};
    for (size_t i = 0; i + 2 < r.x.size(); ++i) y.push_back(outputs(r.window, i, r.x[i + 2], r.w[i + 2], false));
    conv(s, r.x, r.w, y, r.window, r.window.group != 2);
  }
}

void small_pools(OpSpecs& s) {
  struct Row {
    Dims x, kernel;
    Window window;
    bool ceil = false;
  };
  for (const Row& r : std::vector<Row>{{{1, 1, 4}, {2}, {{2}, {1}, {0, 0}}},
                                       {{2, 2, 5}, {3}, {{1}, {1}, {1, 1}}},
                                       {{1, 2, 6}, {2}, {{2}, {2}, {0, 1}}},
                                       {{1, 1, 5}, {2}, {{2}, {1}, {0, 0}}, true},
                                       {{0, 2, 5}, {2}, {{1}, {1}, {0, 0}}},
                                       {{2, 0, 5}, {2}, {{1}, {1}, {0, 0}}},
                                       {{1, 1, 3, 3}, {1, 1}, {{1, 1}, {1, 1}, {0, 0, 0, 0}}},
                                       {{1, 1, 3, 3}, {1, 1}, {{2, 2}, {1, 1}, {0, 0, 0, 0}}},
                                       {{1, 2, 3, 4}, {3, 4}, {{1, 1}, {1, 1}, {0, 0, 0, 0}}},
                                       {{2, 1, 4, 3}, {2, 2}, {{1, 2}, {1, 1}, {1, 0, 0, 1}}},
                                       {{1, 1, 5, 5}, {2, 3}, {{2, 2}, {1, 1}, {0, 1, 1, 1}}, true},
                                       {{1, 1, 5, 4}, {2, 2}, {{1, 1}, {2, 3}, {0, 0, 0, 0}}},
                                       {{3, 1, 1, 6}, {1, 3}, {{1, 3}, {1, 1}, {0, 0, 0, 0}}},
                                       {{1, 3, 4, 1}, {3, 1}, {{1, 1}, {1, 1}, {2, 0, 2, 0}}},
                                       {{1, 1, 2, 3, 3}, {2, 2, 2}, {{1, 1, 1}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}}},
                                       {{1, 2, 3, 2, 2}, {2, 1, 2}, {{1, 1, 2}, {1, 1, 1}, {1, 0, 0, 1, 0, 1}}},
                                       {{2, 1, 3, 3, 2}, {2, 2, 1}, {{2, 2, 1}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}}, true},
                                       {{0, 1, 2, 2, 2}, {2, 2, 2}, {{1, 1, 1}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}}}}) {
    Dims y{r.x[0], r.x[1]};
    for (size_t i = 0; i < r.kernel.size(); ++i) y.push_back(outputs(r.window, i, r.x[i + 2], r.kernel[i], r.ceil));
    const Window& v = r.window;
    Attrs a{{"kernel", r.kernel}, {"strides", v.strides}, {"dilations", v.dilations}, {"pads", v.pads}, {"dims", y}};
    s["MaxPool"].cases.push_back({{{r.x, distinct()}}, a});
    a.set("count_include_pad", int64_t{s["AveragePool"].cases.size() % 2 == 0});
    s["AveragePool"].cases.push_back({{{r.x}}, a});
  }
}

}  // namespace

void add_spatial_cases(OpSpecs& s) {
  const Window plain{{1, 1}, {1, 1}, {0, 0, 0, 0}};
  conv(s, {1, 1, 3, 3}, {1, 1, 1, 1}, {1, 1, 3, 3}, plain, false);
  conv(s, {2, 2, 4, 5}, {3, 2, 3, 2}, {2, 3, 2, 4}, plain, true);
  conv(s, {1, 2, 5, 5}, {2, 2, 3, 3}, {1, 2, 3, 3}, {{2, 2}, {1, 1}, {1, 1, 1, 1}}, true);
  conv(s, {1, 2, 6, 5}, {4, 1, 2, 2}, {1, 4, 4, 4}, {{1, 1}, {2, 1}, {0, 0, 0, 0}, 2}, false);
  conv(s, {1, 3, 4, 4}, {3, 1, 3, 3}, {1, 3, 4, 4}, {{1, 1}, {1, 1}, {1, 1, 1, 1}, 3}, true);
  conv(s, {1, 1, 3, 3, 3}, {2, 1, 2, 2, 2}, {1, 2, 2, 2, 2}, {{1, 1, 1}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}}, true);
  conv(s, {0, 2, 4, 4}, {3, 2, 3, 3}, {0, 3, 2, 2}, plain, true);
  conv(s, {6, 3, 20, 20}, {8, 3, 3, 3}, {6, 8, 20, 20}, {{1, 1}, {1, 1}, {1, 1, 1, 1}}, true);
  conv(s, {4, 32, 9, 9}, {48, 32, 3, 3}, {4, 48, 7, 7}, plain, true);
  small_convolutions(s);
  for (const char* op : {"Conv", "ConvGradX", "ConvGradW"}) s[op].fp32_tolerance = 1e-5, s[op].reordered = true;

  const auto pool = [](Ints kernel, Ints strides, Ints pads, Dims out, Ints dilations = {1, 1}) {
    return Attrs{{"kernel", kernel}, {"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"dims", out}};
  };
  s["MaxPool"].cases = {
      {{{{1, 2, 4, 4}, distinct()}}, pool({2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 2, 2, 2})},
      {{{{2, 1, 5, 4}, distinct()}}, pool({3, 2}, {1, 2}, {1, 0, 1, 0}, {2, 1, 5, 2})},
      {{{{1, 1, 5, 5}, distinct()}}, pool({2, 2}, {1, 1}, {0, 0, 0, 0}, {1, 1, 3, 4}, {2, 1})},
      {{{{0, 2, 4, 4}, distinct()}}, pool({2, 2}, {2, 2}, {0, 0, 0, 0}, {0, 2, 2, 2})},
      {{{{9, 20, 16, 16}, distinct()}}, pool({2, 2}, {2, 2}, {0, 0, 0, 0}, {9, 20, 8, 8}), {0}, false}};
  s["AveragePool"].cases = {{{{{1, 2, 4, 4}}}, pool({2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 2, 2, 2})},
                            {{{{2, 1, 5, 4}}}, pool({3, 2}, {1, 2}, {1, 0, 1, 0}, {2, 1, 5, 2})},
                            {{{{0, 2, 4, 4}}}, pool({2, 2}, {2, 2}, {0, 0, 0, 0}, {0, 2, 2, 2})},
                            {{{{9, 20, 16, 16}}}, pool({2, 2}, {2, 2}, {0, 0, 0, 0}, {9, 20, 8, 8})}};
  OpCase counted = s["AveragePool"].cases[1];
  counted.attrs.set("count_include_pad", int64_t{1});
  s["AveragePool"].cases.push_back(counted);
  small_pools(s);
  for (const OpCase& c : s["AveragePool"].cases) {  // also adds the gradients of these nodes
    OpCase back = c;
    back.in[0].dims = c.attrs.ints("dims");
    back.attrs.set("dims", c.in[0].dims);
    s["AveragePoolGrad"].cases.push_back(back);
  }
  for (const size_t i : {size_t{0}, size_t{2}, size_t{4}}) {  // without padding every tap is inside
    const OpCase& c = s["MaxPool"].cases[i];
    const Ints kernel = c.attrs.ints("kernel");
    const Operand tap{c.attrs.ints("dims"), integers(0, kernel[0] * kernel[1] - 1), Role::byte};
    OpCase back{{{c.attrs.ints("dims"), uniform(-2, 2), Role::held}, tap}, c.attrs, {0}, false};
    back.attrs.set("dims", c.in[0].dims);
    s["MaxPoolGrad"].cases.push_back(back);
    OpCase where{{tap}, c.attrs, {0}, false};
    where.attrs.set("full", c.in[0].dims);
    s["MaxPoolIndex"].cases.push_back(where);
  }
}

}  // namespace amp::test
