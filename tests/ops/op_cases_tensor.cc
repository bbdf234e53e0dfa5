// Cases of operators that move elements: views, transposes, slices, gathers, and their adjoints.
#include "tests/ops/op_cases.h"

namespace amp::test {

namespace {

using Ints = std::vector<int64_t>;

OpCase fixed(OpCase c) {  // the case is run, but not differentiated
  c.finite_differences = false;
  for (Operand& o : c.in) o.role = o.role == Role::value ? Role::held : o.role;
  return c;
}

void shape_ops(OpSpecs& s) {
  s["Reshape"].cases = {{{{{2, 3, 4}}}, {{"dims", Dims{6, 4}}}},
                        {{{{}}}, {{"dims", Dims{1, 1}}}},
                        {{{{1, 1}}}, {{"dims", Dims{}}}},
                        {{{{2, 0, 3}}}, {{"dims", Dims{0, 5}}}},
                        {{{{24}}}, {{"dims", Dims{1, 2, 3, 2, 2}}}},
                        {{{{300, 257}}}, {{"dims", Dims{257, 300}}}}};
  s["Transpose"].cases = {{{{{3, 4}}}, {{"perm", Ints{1, 0}}}},
                          {{{{2, 3, 4}}}, {{"perm", Ints{2, 0, 1}}}},
                          {{{{2, 3, 4}}}, {{"perm", Ints{0, 2, 1}}}},
                          {{{{2, 3, 2, 2}}}, {{"perm", Ints{0, 2, 1, 3}}}},
                          {{{{2, 3, 1, 2, 2}}}, {{"perm", Ints{4, 2, 0, 3, 1}}}},
                          {{{{3, 1, 4}}}, {{"perm", Ints{1, 0, 2}}}},
                          {{{{2, 0, 4}}}, {{"perm", Ints{2, 1, 0}}}},
                          {{{{}}}, {{"perm", Ints{}}}},
                          {{{{70, 41, 33}}}, {{"perm", Ints{2, 0, 1}}}},
                          {{{{9, 130, 67}}}, {{"perm", Ints{0, 2, 1}}}}};
  s["Expand"].cases = {{{{{3, 1}}}, {{"dims", Dims{3, 4}}}},   {{{{4}}}, {{"dims", Dims{2, 3, 4}}}},
                       {{{{}}}, {{"dims", Dims{2, 2}}}},       {{{{1, 3, 1}}}, {{"dims", Dims{2, 3, 2}}}},
                       {{{{1}}}, {{"dims", Dims{0}}}},         {{{{2, 1, 1, 2, 1}}}, {{"dims", Dims{2, 3, 1, 2, 2}}}},
                       {{{{257}}}, {{"dims", Dims{300, 257}}}}};
  // Values and steps that are exact in fp32 and bf16.
  const Draw exact = lattice(1.0 / 32);
  for (const Dims& d : {Dims{}, Dims{5}, Dims{2, 3}, Dims{2, 0}, Dims{1, 2, 3}}) {
    s["Cast"].cases.push_back({{{d, exact}}, {{"to", static_cast<int64_t>(DType::f32)}}});
  }
  s["Cast"].cases.push_back(fixed({{{{300, 257}, exact}}, {{"to", static_cast<int64_t>(DType::f32)}}}));
  s["Cast"].cases.push_back(
      fixed({{{{40}, integers(-9, 9), Role::integer}}, {{"to", static_cast<int64_t>(DType::f32)}}}));
  s["Dropout"].cases = {{{{{}}}, {{"ratio", 0.3}, {"site", int64_t{7}}}},
                        {{{{4, 5}}}, {{"ratio", 0.3}, {"site", int64_t{7}}}},
                        {{{{2, 0}}}, {{"ratio", 0.3}, {"site", int64_t{7}}}},
                        {{{{300, 257}}}, {{"ratio", 0.9}, {"site", int64_t{11}}}}};
}

void slices(OpSpecs& s) {
  const auto slice = [](Dims in, Ints starts, Ints steps, Dims out) {
    return OpCase{{{in}}, {{"starts", starts}, {"steps", steps}, {"dims", out}}};
  };
  s["Slice"].cases = {slice({7}, {2}, {1}, {3}),
                      slice({7}, {6}, {-2}, {4}),
                      slice({3, 4}, {1, 0}, {1, 2}, {2, 2}),
                      slice({3, 4}, {2, 3}, {-1, -1}, {3, 4}),
                      slice({2, 3, 4}, {0, 1, 1}, {1, 1, 1}, {2, 2, 3}),
                      slice({3, 4}, {1, 0}, {1, 1}, {0, 4}),
                      slice({2, 2, 3, 2, 2}, {0, 1, 0, 0, 1}, {1, 1, 2, 1, 1}, {2, 1, 2, 2, 1}),
                      slice({300, 260}, {0, 1}, {1, 1}, {300, 257})};
  const auto unslice = [](Dims in, Ints starts, Ints steps, Dims full) {
    return OpCase{{{in}}, {{"starts", starts}, {"steps", steps}, {"dims", in}, {"full", full}}};
  };
  s["SliceGrad"].cases = {unslice({3}, {2}, {1}, {7}), unslice({4}, {6}, {-2}, {7}),
                          unslice({2, 2}, {1, 0}, {1, 2}, {3, 4}), unslice({0, 4}, {1, 0}, {1, 1}, {3, 4}),
                          unslice({300, 257}, {0, 1}, {1, 1}, {300, 260})};
  const auto axis = [](int64_t a) { return Attrs{{"axis", a}}; };
  s["Concat"].cases = {{{{{2, 3}}, {{1, 3}}}, axis(0)},
                       {{{{2, 3}}, {{2, 1}}, {{2, 2}}}, axis(1)},
                       {{{{2, 0}}, {{2, 2}}}, axis(1)},
                       {{{{3}}, {{2}}}, axis(0)},
                       {{{{2, 1, 2, 1, 2}}, {{2, 1, 3, 1, 2}}}, axis(2)},
                       {{{{300, 200}}, {{300, 57}}}, axis(1)}};
  s["Split"].cases = {
      {{{{5}}}, {{"axis", int64_t{0}}, {"sizes", Ints{2, 3}}}, {0, 1}},
      {{{{2, 6}}}, {{"axis", int64_t{1}}, {"sizes", Ints{1, 2, 3}}}, {0, 1, 2}},
      {{{{2, 6}}}, {{"axis", int64_t{1}}, {"sizes", Ints{1, 2, 3}}}, {1}},  // only output 1 has a gradient
      {{{{2, 3, 2}}}, {{"axis", int64_t{1}}, {"sizes", Ints{0, 3}}}, {0, 1}},
      {{{{300, 257}}}, {{"axis", int64_t{1}}, {"sizes", Ints{200, 57}}}, {0, 1}}};
}

void gathers(OpSpecs& s) {
  const auto rows = [](int64_t outer, int64_t n, int64_t inner, Dims out) {
    return Attrs{{"outer", outer}, {"n", n}, {"inner", inner}, {"dims", out}};
  };
  const auto index = [](Dims d, int64_t n) {
    return Operand{d, integers(-n, n - 1), Role::integer};
  };  // indices may repeat
  s["GatherRows"].cases = {{{{{5, 3}}, index({4}, 5)}, rows(1, 5, 3, {4, 3})},
                           {{{{2, 4, 3}}, index({2, 2}, 4)}, rows(2, 4, 3, {2, 2, 2, 3})},
                           {{{{6}}, index({}, 6)}, rows(1, 6, 1, {})},
                           {{{{5, 3}}, index({0}, 5)}, rows(1, 5, 3, {0, 3})},
                           {{{{90, 130}}, index({600}, 90)}, rows(1, 90, 130, {600, 130})}};
  s["ScatterRows"].cases = {{{{{4, 3}}, index({4}, 5)}, rows(1, 5, 3, {5, 3})},
                            {{{{2, 3, 2}}, index({3}, 4)}, rows(2, 4, 2, {2, 4, 2})},
                            {{{{0, 3}}, index({0}, 5)}, rows(1, 5, 3, {5, 3})},
                            {{{{600, 130}}, index({600}, 90)}, rows(1, 90, 130, {90, 130})}};
  const auto along = [](int64_t axis) { return Attrs{{"axis", axis}}; };
  s["GatherElements"].cases = {{{{{4, 3}}, index({2, 3}, 4)}, along(0)}, {{{{2, 5}}, index({2, 7}, 5)}, along(1)},
                               {{{{6}}, index({3}, 6)}, along(0)},       {{{{2, 4, 3}}, index({2, 2, 3}, 4)}, along(1)},
                               {{{{2, 3}}, index({2, 0}, 3)}, along(1)}, {{{{40, 50}}, index({40, 60}, 50)}, along(1)}};
  const auto back = [](int64_t axis, Dims dims) { return Attrs{{"axis", axis}, {"dims", dims}}; };
  s["ScatterElementsAdd"].cases = {{{{{2, 3}}, index({2, 3}, 4)}, back(0, {4, 3})},
                                   {{{{2, 7}}, index({2, 7}, 5)}, back(1, {2, 5})},
                                   {{{{2, 0}}, index({2, 0}, 3)}, back(1, {2, 3})},
                                   {{{{40, 60}}, index({40, 60}, 50)}, back(1, {40, 50})}};
  const auto replaced = [](int64_t n, int64_t inner) { return Attrs{{"n", n}, {"inner", inner}}; };
  s["ScatterNDRows"].cases = {{{{{5, 3}}, {{2}, some_of(5), Role::integer}, {{2, 3}}}, replaced(5, 3)},
                              {{{{2, 3}}, {{4}, some_of(6), Role::integer}, {{4}}}, replaced(6, 1)},
                              {{{{5, 3}}, {{0}, some_of(5), Role::integer}, {{0, 3}}}, replaced(5, 3)},
                              {{{{90, 130}}, {{60}, some_of(90), Role::integer}, {{60, 130}}}, replaced(90, 130)}};
  const Attrs map{{"axis", int64_t{1}},
                  {"begin", Ints{0, 2, 3, 3, 5}},
                  {"index", Ints{0, 1, 2, 0, 3}},
                  {"weight", std::vector<double>{0.25, 0.75, 1, -1, 2}}};
  s["AxisMap"].cases = {{{{{2, 4}}}, map},    {{{{2, 4, 3}}}, map},    {{{{0, 4}}}, map},
                        {{{{3, 4, 0}}}, map}, {{{{300, 4, 70}}}, map}, {{{{9000, 4}}}, map}};
}

}  // namespace

void add_tensor_cases(OpSpecs& s) {
  shape_ops(s);
  slices(s);
  gathers(s);
  const Operand cond{{2, 3}, coin(), Role::boolean};
  s["Where"].cases = {{{cond, {{2, 3}}, {{2, 3}}}, {}},
                      {{cond, {{}}, {{3}}}, {}},
                      {{{{2, 1, 1}, coin(), Role::boolean}, {{1, 3, 1}}, {{1, 1, 4}}}, {}},
                      {{{{}, coin(), Role::boolean}, {{5}}, {{5}}}, {}},
                      {{{{0, 3}, coin(), Role::boolean}, {{3}}, {{1, 3}}}, {}},
                      {{{{2, 1, 2, 1, 2}, coin(), Role::boolean}, {{2, 1, 1, 2}}, {{1, 2, 1, 2, 1}}}, {}},
                      {{{{300, 1}, coin(), Role::boolean}, {{300, 257}}, {{257}}}, {}}};
}

}  // namespace amp::test
