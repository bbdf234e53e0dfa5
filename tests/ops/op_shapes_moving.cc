// Cases of views, transposes, slices and similar operators over the table of small shapes, with alternating attributes.
#include <algorithm>
#include <numeric>

#include "tests/ops/op_cases.h"

namespace amp::test {

namespace {

using Ints = std::vector<int64_t>;

void reshapes(OpSpecs& s, const Dims& d, size_t k) {
  Dims longer = d;
  longer.insert(longer.begin() + static_cast<int64_t>(k % (d.size() + 1)), 1);
  s["Reshape"].cases.push_back({{{d}}, {{"dims", longer}}});
  if (d.size() > 1) s["Reshape"].cases.push_back({{{d}}, {{"dims", Dims{numel(d)}}}});
}

void transposes(OpSpecs& s, const Dims& d) {
  Ints perm(d.size());
  std::iota(perm.begin(), perm.end(), int64_t{0});
  std::reverse(perm.begin(), perm.end());
  s["Transpose"].cases.push_back({{{d}}, {{"perm", perm}}});
  if (d.size() < 3) return;
  std::sort(perm.begin(), perm.end());
  std::rotate(perm.begin(), perm.begin() + 1, perm.end());
  s["Transpose"].cases.push_back({{{d}}, {{"perm", perm}}});
  std::sort(perm.begin(), perm.end());
  std::swap(perm[0], perm[1]);
  s["Transpose"].cases.push_back({{{d}}, {{"perm", perm}}});
}

void broadcasts(OpSpecs& s, const Dims& d, size_t k) {
  for (const size_t way : {k, k + 1}) {
    const Dims small = broadcasting(d, 1 + way % 4).second;
    if (small != d) s["Expand"].cases.push_back({{{small}}, {{"dims", d}}});
  }
  std::vector<Dims> of{broadcasting(d, 1 + k % 5).first, broadcasting(d, 1 + k % 5).second,
                       broadcasting(d, 1 + (k + 2) % 5).second};
  std::rotate(of.begin(), of.begin() + static_cast<int64_t>(k % 3), of.end());
  s["Where"].cases.push_back({{{of[0], coin(), Role::boolean}, {of[1]}, {of[2]}}, {}});
}

void copies(OpSpecs& s, const Dims& d, size_t k) {
  // Values and steps that are exact in fp32.
  s["Cast"].cases.push_back({{{d, lattice(1.0 / 32)}}, {{"to", static_cast<int64_t>(DType::f32)}}});
  const double ratio = k % 3 == 0 ? 0.3 : k % 3 == 1 ? 0.5 : 0.7;
  const int64_t rows = k % 2 && !d.empty() && d[0] > 0 ? d[0] : 1;
  s["Dropout"].cases.push_back({{{d}}, {{"ratio", ratio}, {"site", static_cast<int64_t>(k)}, {"rows", rows}}});
}

// Adds slices that take every dim in full, reversed, with step two, or without its first element.
void slices(OpSpecs& s, const Dims& d, size_t k) {
  Ints starts, steps;
  Dims part;
  for (size_t i = 0; i < d.size(); ++i) {
    const int64_t n = d[i];
    const size_t form = (k + i) % 4;
    part.push_back(form == 2 ? (n + 1) / 2 : form == 3 ? std::max<int64_t>(0, n - 1) : n);
    starts.push_back(part.back() == 0 ? 0 : form == 1 ? n - 1 : form == 3 ? 1 : 0);
    steps.push_back(form == 1 ? -1 : form == 2 ? 2 : 1);
  }
  const Attrs a{{"starts", starts}, {"steps", steps}, {"dims", part}};
  s["Slice"].cases.push_back({{{d}}, a});
  Attrs full = a;
  full.set("full", d);
  s["SliceGrad"].cases.push_back({{{part}}, full});
}

void joints(OpSpecs& s, const Dims& d, size_t k, size_t axis) {
  const Attrs along{{"axis", static_cast<int64_t>(axis)}};
  Dims one = d, two = d;
  one[axis] = 1;
  two[axis] = 2;
  s["Concat"].cases.push_back({{{d}, {one}}, along});
  if (k % 2) s["Concat"].cases.back().in.push_back({two});
  const int64_t n = d[axis], first = k % 3 == 0 ? 0 : k % 3 == 1 ? n / 2 : std::min<int64_t>(n, 1);
  const std::vector<size_t> seeded = k % 4 == 0 ? std::vector<size_t>{1} : std::vector<size_t>{0, 1};
  s["Split"].cases.push_back(
      {{{d}}, {{"axis", static_cast<int64_t>(axis)}, {"sizes", Ints{first, n - first}}}, seeded});
}

}  // namespace

void add_moving_shapes(OpSpecs& s) {
  size_t k = 0;
  for (const Dims& d : small_shapes()) {
    reshapes(s, d, k);
    transposes(s, d);
    broadcasts(s, d, k);
    copies(s, d, k);
    slices(s, d, k);
    for (const size_t axis : axes_in_turn(d, k)) joints(s, d, k, axis);
    ++k;
  }
}

}  // namespace amp::test
