#include "importer/discover/batch_statistics.h"

#include <algorithm>
#include <set>
#include <vector>

#include "importer/surgery/edit.h"

namespace amp {
namespace {

const SourceNode* producer(const SourceGraph& g, int v) {
  const int p = v < 0 ? -1 : g.value(v).producer;
  return p < 0 ? nullptr : &g.nodes[static_cast<size_t>(p)];
}

// True for a mean over axis 0, possibly also over other axes.
bool mean_over_batch(const SourceGraph& g, const SourceNode& n) {
  if (n.op != "ReduceMean" || !n.domain.empty() || n.inputs.empty()) return false;
  std::vector<int64_t> axes = n.attrs.ints("axes", {});
  if (n.inputs.size() > 1 && n.inputs[1] >= 0 && g.value(n.inputs[1]).data) axes = g.value(n.inputs[1]).data.to_ints();
  return std::find(axes.begin(), axes.end(), 0) != axes.end();
}

}  // namespace

std::vector<int> batch_statistics(const SourceGraph& g) {
  const std::vector<char> fed = downstream_of(g, g.inputs);
  std::set<int> normalized;  // values whose statistics are in `out`; the mean and variance of a value count once
  std::vector<int> out;
  const auto add = [&](int x, size_t node) {
    if (normalized.insert(x).second) out.push_back(static_cast<int>(node));
  };
  for (size_t at = 0; at < g.nodes.size(); ++at) {
    const SourceNode& n = g.nodes[at];
    if (!n.domain.empty()) continue;
    if (n.op == "BatchNormalization" && n.inputs.size() > 4 && n.inputs[3] >= 0 &&
        fed[static_cast<size_t>(n.inputs[3])])
      add(n.inputs[0], at);
    if (n.op != "Sub" || n.inputs.size() != 2) continue;
    const SourceNode* const mean = producer(g, n.inputs[1]);
    if (mean && mean_over_batch(g, *mean) && mean->inputs[0] == n.inputs[0] && fed[static_cast<size_t>(n.inputs[0])])
      add(n.inputs[0], at);
  }
  return out;
}

}  // namespace amp
