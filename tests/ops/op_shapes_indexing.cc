// Cases of operators that gather or scatter by index, over the table of small shapes. Axes alternate, indices count
// from both ends, and they repeat if the operator adds.
#include <algorithm>

#include "tests/ops/op_cases.h"

namespace amp::test {

namespace {

using Ints = std::vector<int64_t>;

int64_t product(const Dims& d, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t i = begin; i < end; ++i) n *= d[i];
  return n;
}

// Draws numbers of [-n, n) that differ modulo n within every line along the axis.
Draw different_in_lines(const Dims& idx, size_t axis, int64_t n) {
  return [=](int64_t count, Rng& rng) {
    std::vector<double> v(static_cast<size_t>(count));
    const int64_t inner = product(idx, axis + 1, idx.size()), m = idx[axis];
    for (int64_t line = 0; m > 0 && line < count / m; ++line) {
      const std::vector<double> chosen = some_of(n)(m, rng);
      for (int64_t j = 0; j < m; ++j) {
        const double back = uniform01(rng) < 0.5 ? static_cast<double>(n) : 0.0;
        v[static_cast<size_t>((line / inner * m + j) * inner + line % inner)] = chosen[static_cast<size_t>(j)] - back;
      }
    }
    return v;
  };
}

void rows(OpSpecs& s, const Dims& d, size_t k, size_t axis) {
  const int64_t n = d[axis];
  const Dims idx = n == 0 ? Dims{0} : k % 3 == 0 ? Dims{} : k % 3 == 1 ? Dims{3} : Dims{2, 2};
  Dims out(d.begin(), d.begin() + static_cast<int64_t>(axis));
  out.insert(out.end(), idx.begin(), idx.end());
  out.insert(out.end(), d.begin() + static_cast<int64_t>(axis) + 1, d.end());
  Attrs a{{"outer", product(d, 0, axis)}, {"n", n}, {"inner", product(d, axis + 1, d.size())}, {"dims", out}};
  const Operand index{idx, integers(-n, n - 1), Role::integer};
  s["GatherRows"].cases.push_back({{{d}, index}, a});
  a.set("dims", d);
  s["ScatterRows"].cases.push_back({{{out}, index}, a});
}

void elements(OpSpecs& s, const Dims& d, size_t k, size_t axis) {
  const int64_t n = d[axis], along = static_cast<int64_t>(axis);
  Dims idx = d;
  for (int64_t& e : idx) e = k % 3 == 1 && e > 1 ? e - 1 : e;  // in some cases, one element fewer along the other axes
  idx[axis] = n == 0 ? 0 : 1 + static_cast<int64_t>(k % 4);
  const Operand index{idx, integers(-n, n - 1), Role::integer};
  s["GatherElements"].cases.push_back({{{d}, index}, {{"axis", along}}});
  s["ScatterElementsAdd"].cases.push_back({{{idx}, index}, {{"axis", along}, {"dims", d}}});
  idx[axis] = std::min(n, idx[axis]);
  s["ScatterElements"].cases.push_back({{{d}, {idx, different_in_lines(idx, axis, n), Role::integer}, {idx}},
                                        {{"axis", along}, {"reduction", int64_t{0}}}});
  s["TopK"].cases.push_back(
      {{{d, distinct()}},
       {{"axis", along}, {"k", std::min(n, static_cast<int64_t>(k % 4))}, {"largest", static_cast<int64_t>(k % 2)}}});
}

// Adds operators with tuples of indices, which address the first `depth` dims of d.
void tuples(OpSpecs& s, const Dims& d, size_t k) {
  const size_t depth = k % (d.size() + 1);
  const int64_t n = product(d, 0, depth), count = std::min(n, static_cast<int64_t>(1 + k % 3));
  Dims updates{count};
  updates.insert(updates.end(), d.begin() + static_cast<int64_t>(depth), d.end());
  s["ScatterNDRows"].cases.push_back(
      {{{d}, {{count}, some_of(n), Role::integer}, {updates}}, {{"n", n}, {"inner", product(d, depth, d.size())}}});
}

// Adds cases of a map whose row j adds entries j and j + 1 of the axis; every third row is empty.
void maps(OpSpecs& s, const Dims& d, size_t k, size_t axis) {
  const int64_t n = d[axis];
  Ints begin{0}, index;
  std::vector<double> weight;
  for (int64_t j = 0; j < static_cast<int64_t>(k % 5); ++j) {
    for (int64_t t = 0; t < 2 && j % 3 != 2 && n > 0; ++t) {
      index.push_back((j + t) % n);
      weight.push_back(t ? -0.25 : 0.5 + 0.25 * static_cast<double>(j));
    }
    begin.push_back(static_cast<int64_t>(index.size()));
  }
  s["AxisMap"].cases.push_back(
      {{{d}}, {{"axis", static_cast<int64_t>(axis)}, {"begin", begin}, {"index", index}, {"weight", weight}}});
}

}  // namespace

void add_indexing_shapes(OpSpecs& s) {
  size_t k = 0;
  for (const Dims& d : small_shapes()) {
    tuples(s, d, k);
    for (const size_t axis : axes_in_turn(d, k)) {
      rows(s, d, k, axis);
      elements(s, d, k, axis);
      maps(s, d, k, axis);
    }
    ++k;
  }
}

}  // namespace amp::test
