// NonMaxSuppression (ONNX 10, 11) and Unique (11). The number of output rows depends on the values of the inputs. So
// both operators are computed only if their inputs follow from shapes (anchors, position tables), and rejected
// otherwise. They have no gradient: the outputs are indices, or values that a Gather by these indices returns.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"

namespace amp {
namespace {

const HostTensor& known(const Lowering& l, size_t i, const std::string& what) {
  const HostTensor* t = l.b.constant_of(l.in(i));
  if (!t) {
    fail(Exit::unsupported, "E_DYNAMIC",
         cat(l.node.op, ": ", what, " depend on the data, and so does the number of rows that it gives"),
         cat("train the part before it: name the values that go into '", l.node.name,
             "' with `output`; the exported file keeps the node"));
  }
  return *t;
}

struct Box {
  double y0, x0, y1, x1;
  double area() const { return (y1 - y0) * (x1 - x0); }
};
Box box(const double* v, bool centered) {
  if (centered) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}
bool overlap(const Box& a, const Box& b, double limit) {
  const double high = std::min(a.y1, b.y1) - std::max(a.y0, b.y0), wide = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (high <= 0 || wide <= 0 || a.area() <= 0 || b.area() <= 0) return false;
  // Compares in fp32, as inference engines do, because the ratio may be exactly at the threshold.
  const float common = static_cast<float>(high * wide), all = static_cast<float>(a.area() + b.area()) - common;
  return common / all > static_cast<float>(limit);
}

// Lowers NonMaxSuppression of boxes (N, B, 4) with scores (N, K, B). The other inputs are the largest number of boxes
// per class, the IoU threshold and the score threshold. Output: rows (image, class, box), for each class by descending
// score.
void lower_nms(Lowering& l) {
  const HostTensor &boxes = known(l, 0, "the boxes"), &scores = known(l, 1, "the scores");
  const auto number = [&](size_t i) {
    return l.has(i) && numel(l.dims(i)) ? known(l, i, "the thresholds").to_doubles()[0] : 0.0;
  };
  const double most = number(2), iou = number(3), least = number(4);
  const bool filter = l.has(4) && numel(l.dims(4)) > 0, centered = l.attrs.i("center_point_box", 0) != 0;
  const Dims b = boxes.dims(), s = scores.dims();
  if (b.size() != 3 || b[2] != 4 || s.size() != 3 || s[0] != b[0] || s[2] != b[1])
    fail(Exit::model, "E_SHAPE", cat("NonMaxSuppression of boxes ", to_string(b), " with scores ", to_string(s)));
  const std::vector<double> at = boxes.to_doubles(), score = scores.to_doubles();
  std::vector<int64_t> rows;
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t k = 0; k < s[1]; ++k) {
      const double* const of = score.data() + (n * s[1] + k) * s[2];
      std::vector<int64_t> order;
      for (int64_t i = 0; i < s[2]; ++i) {
        if (!filter || of[i] > least) order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return of[i] > of[j]; });
      std::vector<Box> kept;
      for (const int64_t i : order) {
        if (static_cast<double>(kept.size()) >= most) break;
        const Box candidate = box(at.data() + (n * b[1] + i) * 4, centered);
        if (std::any_of(kept.begin(), kept.end(), [&](const Box& other) { return overlap(candidate, other, iou); }))
          continue;
        kept.push_back(candidate);
        rows.insert(rows.end(), {n, k, i});
      }
    }
  }
  l.out(0, l.b.constant(HostTensor::of<int64_t>({static_cast<int64_t>(rows.size() / 3), 3}, rows)));
}

// Lowers Unique: the distinct entries along an axis, or the distinct elements. Outputs: the entries, the first position
// of each entry, for each position the number of its entry, and how often each entry occurs.
void lower_unique(Lowering& l) {
  const HostTensor& x = known(l, 0, "the elements");
  const bool flat = !l.attrs.has("axis"), sorted = l.attrs.i("sorted", 1) != 0;
  const int64_t axis = flat ? 0 : normalize_axis(l.attrs.i("axis", 0), l.rank(0));
  const Dims d = flat ? Dims{x.numel()} : x.dims();
  const int64_t n = d[static_cast<size_t>(axis)];
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < static_cast<int64_t>(d.size()); ++i)
    (i < axis ? outer : inner) *= i == axis ? 1 : d[static_cast<size_t>(i)];
  const std::vector<double> v = x.to_doubles();
  std::vector<std::vector<double>> entries(static_cast<size_t>(n));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < n; ++k) {
      const auto from = v.begin() + (o * n + k) * inner;
      entries[static_cast<size_t>(k)].insert(entries[static_cast<size_t>(k)].end(), from, from + inner);
    }
  }
  std::vector<int64_t> order(entries.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return entries[static_cast<size_t>(i)] < entries[static_cast<size_t>(j)];
  });
  std::vector<std::pair<int64_t, std::vector<int64_t>>> groups;  // first position, all positions
  for (const int64_t i : order) {
    if (groups.empty() || entries[static_cast<size_t>(groups.back().first)] != entries[static_cast<size_t>(i)])
      groups.push_back({i, {}});
    groups.back().second.push_back(i);
  }
  if (!sorted)
    std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int64_t> first, inverse(entries.size()), counts;
  for (size_t g = 0; g < groups.size(); ++g) {
    first.push_back(groups[g].first);
    counts.push_back(static_cast<int64_t>(groups[g].second.size()));
    for (const int64_t i : groups[g].second) inverse[static_cast<size_t>(i)] = static_cast<int64_t>(g);
  }
  const auto ints = [&](const std::vector<int64_t>& w) {
    return l.b.constant(HostTensor::of<int64_t>({static_cast<int64_t>(w.size())}, w));
  };
  Dims out = d;
  out[static_cast<size_t>(axis)] = static_cast<int64_t>(first.size());
  const ValueId source = l.b.reshape(l.in(0), d);
  l.out(0, l.b.op("GatherRows", {source, ints(first)}, {{"outer", outer}, {"n", n}, {"inner", inner}, {"dims", out}}));
  l.out(1, ints(first));
  l.out(2, ints(inverse));
  l.out(3, ints(counts));
}

const RegisterOnnx non_max_suppression_onnx[] = {RegisterOnnx{{"NonMaxSuppression", lower_nms, 10, {}}},
                                                 RegisterOnnx{{"Unique", lower_unique, 11, {}}}};

}  // namespace
}  // namespace amp
