#include "graph/source.h"

#include "base/error.h"
#include "base/text.h"

namespace amp {

int SourceGraph::find(const std::string& value_name) const {
  const auto it = by_name_.find(value_name);
  return it == by_name_.end() ? -1 : it->second;
}

int SourceGraph::add_value(SourceValue v) {
  const int index = static_cast<int>(values.size());
  if (!by_name_.emplace(v.name, index).second) {
    fail(Exit::model, "E_SSA", cat("two values are called '", printable(v.name), "'"));
  }
  values.push_back(std::move(v));
  return index;
}

int SourceGraph::add_node(SourceNode n) {
  const int index = static_cast<int>(nodes.size());
  for (const int o : n.outputs) {
    if (o >= 0) values[static_cast<size_t>(o)].producer = index;
  }
  nodes.push_back(std::move(n));
  return index;
}

void SourceGraph::rename(int value, const std::string& name) {
  SourceValue& v = values[static_cast<size_t>(value)];
  if (v.name == name) return;
  if (!by_name_.emplace(name, value).second)
    fail(Exit::model, "E_SSA", cat("two values are called '", printable(name), "'"));
  by_name_.erase(v.name);
  v.name = name;
}

std::string SourceGraph::fresh_name(const std::string& stem) const {
  if (find(stem) < 0) return stem;
  for (int i = 1;; ++i) {
    std::string name = cat(stem, "_", i);
    if (find(name) < 0) return name;
  }
}

std::vector<std::vector<int>> SourceGraph::consumers() const {
  std::vector<std::vector<int>> out(values.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const int v : nodes[n].inputs) {
      if (v >= 0) out[static_cast<size_t>(v)].push_back(static_cast<int>(n));
    }
  }
  return out;
}

std::string SourceGraph::describe_node(int node) const {
  const SourceNode& n = nodes[static_cast<size_t>(node)];
  return cat("node '", printable(n.name), "' (", n.domain.empty() ? "" : n.domain + "::", printable(n.op), ", #", node,
             ", opset ", n.version, ")");
}

}  // namespace amp
