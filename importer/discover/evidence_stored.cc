// Evidence for tensors that a file stores in addition to their weight, or with placeholder values: quantized copies of
// a weight, and class or prompt tokens of zeros.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "base/text.h"
#include "importer/discover/evidence_position.h"
#include "importer/discover/tensor_values.h"

namespace amp {
namespace {

// True if x * scale equals y up to rounding; scale is broadcast to x. A null scale means 1.
bool scaled_equal(const HostTensor& x, const HostTensor* scale, const HostTensor& y) {
  if (x.dims() != y.dims() || (scale && scale->rank() > x.rank())) return false;
  const TensorValues xs(x), ys(y), ss(scale ? *scale : x);
  const Dims& dims = x.dims();
  const size_t lead = scale ? dims.size() - scale->dims().size() : 0;
  for (size_t d = lead; scale && d < dims.size(); ++d) {
    if (const int64_t n = scale->dims()[d - lead]; n != 1 && n != dims[d]) return false;
  }
  for (int64_t i = 0; i < x.numel(); ++i) {
    double s = 1;
    if (scale) {
      int64_t rest = i, at = 0, stride = 1;
      for (size_t d = dims.size(); d-- > lead;) {
        const int64_t n = scale->dims()[d - lead];
        at += n == 1 ? 0 : rest % dims[d] * stride;
        stride *= n;
        rest /= dims[d];
      }
      s = ss.at(at);
    }
    if (!(std::fabs(xs.at(i) * s - ys.at(i)) <= 1e-5 * std::fabs(ys.at(i)) + 1e-30)) return false;
  }
  return x.numel() > 1;
}

}  // namespace

// True for c = w / s in w + (round(c) - c) s, where the graph rounds c and also holds w and s.
bool PositionEvidence::rounded_copy(int v) const {
  bool rounds = false;
  std::vector<int> open = {v}, scales, weights;
  std::set<int> seen = {v};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    for (const int user : consumers_[static_cast<size_t>(at)]) {
      const SourceNode& n = node(user);
      const bool here = one_of(n.op, {"Round", "Floor", "Ceil"});
      if (!live_[static_cast<size_t>(user)] || reads_data(n) ||
          !(here || one_of(n.op, {"Clip", "Sub", "Mul", "Add", "Cast", "Identity"})))
        continue;
      rounds = rounds || here;
      for (const int i : n.inputs) {
        if (i >= 0 && i != v && constant(i) && is_float(value(i).data.dtype()))
          (n.op == "Mul" ? scales : weights).push_back(i);
      }
      for (const int o : n.outputs) {
        if (o >= 0 && seen.insert(o).second) open.push_back(o);
      }
    }
  }
  if (!rounds) return false;
  return std::any_of(weights.begin(), weights.end(), [&](int w) {
    return scaled_equal(value(v).data, nullptr, value(w).data) || std::any_of(scales.begin(), scales.end(), [&](int s) {
             return scaled_equal(value(v).data, &value(s).data, value(w).data);
           });
  });
}

// True for v in Concat(v, tokens) + positions: a class or prompt token [.., n, H], which may still be zeros. An initial
// state of zeros is also concatenated with data, but the graph adds no position table to the result.
bool PositionEvidence::joined_token(int v) const {
  const Dims& own = value(v).data.dims();
  if (own.size() < 2 || own.back() < 2) return false;
  for (const int user : consumers_[static_cast<size_t>(v)]) {
    const SourceNode& join = node(user);
    if (!live_[static_cast<size_t>(user)] || join.op != "Concat" || join.inputs.size() < 2) continue;
    const auto axis =
        static_cast<size_t>(join.attrs.i("axis", 0) + (join.attrs.i("axis", 0) < 0 ? std::ssize(own) : 0));
    if (axis + 2 != own.size() || !reads_data(join)) continue;
    for (const int adder : consumers_[static_cast<size_t>(join.outputs[0])]) {
      const SourceNode& add = node(adder);
      if (add.op != "Add") continue;
      for (const int i : add.inputs) {
        if (!constant(i)) continue;
        const Dims& table = value(i).data.dims();
        if (table.size() > 1 && table.back() == own.back() && table[table.size() - 2] > own[axis]) return true;
      }
    }
  }
  return false;
}

}  // namespace amp
