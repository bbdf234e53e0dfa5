// Removes the part of a SourceGraph after a value. Values keep their indices, because the ModelDoc refers to them. The
// outputs of removed nodes lose their producer and are renamed, so that a new head may use their names.
#include "importer/surgery/cut.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "importer/surgery/edit.h"

namespace amp {
namespace {

int find_cut(const SourceGraph& g, const std::string& name) {
  int v = g.find(name);
  for (size_t n = 0; n < g.nodes.size() && v < 0; ++n) {
    if (g.nodes[n].name == name && !g.nodes[n].outputs.empty()) v = g.nodes[n].outputs[0];
  }
  if (v < 0) {
    std::vector<std::string> names;
    for (const SourceValue& x : g.values) names.push_back(x.name);
    for (const SourceNode& n : g.nodes) names.push_back(n.name);
    const std::string near = nearest(name, names);
    fail(Exit::usage, "E_CUT", cat("`cut_at`: the model has no node or tensor '", printable(name), "'"),
         near.empty() ? "`check MODEL` lists the nodes" : cat("did you mean '", printable(near), "'?"));
  }
  if (g.values[static_cast<size_t>(v)].kind != SourceKind::temp) {
    fail(Exit::usage, "E_CUT",
         cat("`cut_at`: '", printable(name), "' is an input or a weight; nothing would be left before it"),
         "name what a node computes");
  }
  return v;
}

// Turns the weights that the graph no longer uses into constants and returns their number. If a master was dropped, the
// first remaining weight that was tied to it becomes the new master.
size_t drop_weights(SourceGraph& g, const std::vector<char>& used_before, const std::vector<char>& used) {
  size_t weights = 0;
  for (size_t v = 0; v < g.values.size(); ++v) {
    SourceValue& x = g.values[v];
    if (used[v] || !used_before[v] || x.kind != SourceKind::parameter) continue;
    x.kind = SourceKind::constant;
    x.trainable = false;
    x.tied_to = -1;
    x.reason = "cut off";
    ++weights;
  }
  for (size_t v = 0; v < g.values.size(); ++v) {
    const int master = g.values[v].tied_to;
    if (g.values[v].kind != SourceKind::parameter || master < 0 ||
        g.values[static_cast<size_t>(master)].kind == SourceKind::parameter)
      continue;
    const bool flipped = g.values[v].tied_transposed;
    g.values[v].tied_to = -1;
    g.values[v].tied_transposed = false;
    for (size_t w = v + 1; w < g.values.size(); ++w) {
      if (g.values[w].kind != SourceKind::parameter || g.values[w].tied_to != master) continue;
      g.values[w].tied_to = static_cast<int>(v);
      g.values[w].tied_transposed = g.values[w].tied_transposed != flipped;
    }
  }
  return weights;
}

}  // namespace

int cut_graph(SourceGraph& g, const std::string& name, std::vector<std::string>& lines) {
  const int at = find_cut(g, name);
  const std::vector<char> used_before = upstream_of(g, g.outputs), after = downstream_of(g, {at});
  std::vector<std::string> gone;
  std::erase_if(g.outputs, [&](int v) {
    if (v != at && after[static_cast<size_t>(v)]) gone.push_back(printable(g.values[static_cast<size_t>(v)].name));
    return v != at && after[static_cast<size_t>(v)];
  });
  if (std::find(g.outputs.begin(), g.outputs.end(), at) == g.outputs.end()) g.outputs.push_back(at);

  // Weights and nodes that only the removed outputs needed are removed. Nodes that were unused before stay.
  const std::vector<char> used = upstream_of(g, g.outputs);
  const size_t weights = drop_weights(g, used_before, used);
  const auto serves = [&](const SourceNode& n) {
    return std::any_of(n.outputs.begin(), n.outputs.end(),
                       [&](int v) {
                         return v >= 0 && (used[static_cast<size_t>(v)] || !used_before[static_cast<size_t>(v)]) &&
                                !after[static_cast<size_t>(v)];
                       }) ||
           std::find(n.outputs.begin(), n.outputs.end(), at) != n.outputs.end();
  };
  const size_t before = g.nodes.size();
  std::vector<SourceNode> kept;
  for (SourceNode& n : g.nodes) {
    if (serves(n)) {
      kept.push_back(std::move(n));
      continue;
    }
    for (const int v : n.outputs) {
      if (v < 0) continue;
      SourceValue& x = g.values[static_cast<size_t>(v)];
      x.producer = -1;
      g.rename(v, g.fresh_name(x.name + "/cut"));  // frees the name
    }
  }
  g.nodes = std::move(kept);
  sort_nodes(g);
  lines.push_back(cat("cut at '", printable(g.values[static_cast<size_t>(at)].name), "': ", before - g.nodes.size(),
                      " nodes and ", weights, " weights dropped",
                      gone.empty() ? "" : cat(", with the outputs ", join(gone, ", "))));
  return at;
}

}  // namespace amp
