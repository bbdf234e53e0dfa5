// Finds the labels that decide which rows a loss reads (label_rows.h).
#include <algorithm>
#include <set>

#include "base/text.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "ops/passes/label_rows.h"

namespace amp {

namespace {

// Returns the names of the inputs that v depends on; nullopt if v depends on parameters or random numbers.
std::optional<std::set<std::string>> sources(const Graph& g, ValueId v) {
  std::set<std::string> names;
  std::set<int32_t> seen;
  std::vector<ValueId> open{v};
  while (!open.empty()) {
    const ValueId at = open.back();
    open.pop_back();
    if (!seen.insert(at.index).second) continue;
    const Value& x = g.value(at);
    if (x.kind == ValueKind::param) return std::nullopt;
    if (x.kind == ValueKind::input) names.insert(x.name);
    if (x.kind != ValueKind::temp) continue;
    const Node& n = g.node(x.producer);
    if (n.op->effect != Effect::pure) return std::nullopt;
    for (const ValueId i : n.in) {
      if (i) open.push_back(i);
    }
  }
  return names;
}

}  // namespace

std::vector<RowLabels> row_labels(const Graph& g, const std::map<std::string, int64_t>& ignored) {
  std::vector<RowLabels> labels;
  const auto add = [&](ValueId v, int64_t x) {
    if (std::none_of(labels.begin(), labels.end(), [&](const RowLabels& l) { return l.value == v; }))
      labels.push_back({v, x});
  };
  for (int32_t i = 0; i < g.n_nodes(); ++i) {
    const Node& n = g.node(NodeId{i});
    if (n.op->name == "CrossEntropy") {
      const auto from = sources(g, n.in[1]);
      if (from && !from->empty()) add(n.in[1], n.attrs.i("ignore_index", -100));
    }
    if (n.op->name != "Equal") continue;
    const Value &x = g.value(n.in[0]), &y = g.value(n.in[1]);
    if (is_float(x.dtype) || x.dims.empty() || x.dims.size() > 2 || y.kind != ValueKind::constant ||
        y.constant.numel() != 1)
      continue;
    const auto from = sources(g, n.in[0]);
    const double wanted = y.constant.to_doubles()[0];
    if (from && std::any_of(ignored.begin(), ignored.end(), [&](const auto& named) {
          return from->contains(named.first) && static_cast<double>(named.second) == wanted;
        }))
      add(n.in[0], static_cast<int64_t>(wanted));
  }
  return labels;
}

Graph label_graph(const Graph& g, const RowSelection& selection) {
  Graph labels = g;
  labels.param_grads.clear();
  labels.outputs.clear();
  for (size_t i = 0; i < selection.labels.size(); ++i)
    labels.outputs.push_back({cat("labels.", i), selection.labels[i].value});
  return prune(labels);
}

}  // namespace amp
