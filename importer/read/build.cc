// Passes that follow SourceBuilder: Identity aliases of constants are resolved and constant fills become tensors.
// drop_nodes() renumbers all values, so every per-value table of Built must be mapped there.
#include "importer/read/build.h"

#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/discover/constant_filled.h"
#include "importer/discover/tensor_values.h"
#include "importer/read/builder.h"

namespace amp {

std::vector<std::string> captures(const SourceNode& node) {
  std::vector<std::string> names;
  for (const auto& [key, value] : node.attrs.items()) {
    const auto* held = std::get_if<std::shared_ptr<const SourceGraph>>(&value);
    if (!held) continue;
    for (const SourceValue& v : (*held)->values) {
      if (v.kind == SourceKind::temp && v.producer < 0) names.push_back(v.name);
    }
  }
  return names;
}

void drop_nodes(Built& built, const std::vector<char>& gone) {
  SourceGraph& g = built.graph;
  Built out;
  out.notes = std::move(built.notes);
  out.graph.name = g.name;
  out.graph.opsets = g.opsets;
  std::vector<int> moved(g.values.size(), -1);
  for (size_t v = 0; v < g.values.size(); ++v) {
    SourceValue& value = g.values[v];
    if (value.kind == SourceKind::temp) {
      if (value.producer < 0) {
        fail(Exit::model, "E_DANGLING", cat("value '", printable(value.name), "' is produced by no node"));
      }
      if (gone[static_cast<size_t>(value.producer)]) continue;
    }
    moved[v] = out.graph.add_value(std::move(value));
    out.slot_of.push_back(built.slot_of[v]);
    out.visible.push_back(built.visible[v]);
  }
  const auto move_all = [&](std::vector<int>& indices) {
    for (int& v : indices) v = v < 0 ? v : moved[static_cast<size_t>(v)];
  };
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (gone[i]) continue;
    SourceNode n = std::move(g.nodes[i]);
    move_all(n.inputs);
    move_all(n.outputs);
    out.graph.add_node(std::move(n));
    out.scopes.push_back(std::move(built.scopes[i]));
  }
  for (const auto& [copy, of] : built.copies)
    out.copies[moved[static_cast<size_t>(copy)]] = moved[static_cast<size_t>(of)];
  out.four_bits = std::move(built.four_bits);
  out.graph.inputs = g.inputs;
  out.graph.outputs = g.outputs;
  move_all(out.graph.inputs);
  move_all(out.graph.outputs);
  built = std::move(out);
}

// True for tensors that an exporter may have merged with equal tensors: newly initialized scales, biases and
// statistics.
bool constant_valued(const HostTensor& t) {
  return t && is_float(t.dtype()) && t.numel() > 0 && TensorValues(t).constant_valued();
}

// Turns value v into a constant that shares the tensor of value `of`.
void make_copy(Built& built, int of, int v) {
  const SourceValue& from = built.graph.values[static_cast<size_t>(of)];
  SourceValue& to = built.graph.values[static_cast<size_t>(v)];
  to.kind = SourceKind::constant;
  to.producer = -1;
  to.data = from.data;
  to.dtype = from.dtype;
  to.dtype_known = to.rank_known = true;
  to.dims = from.dims;
  built.copies[v] = of;
}

void resolve_identities(Built& built, bool keep_aliases) {
  SourceGraph& g = built.graph;
  std::vector<int> stands_for(g.values.size());
  for (size_t v = 0; v < g.values.size(); ++v) stands_for[v] = static_cast<int>(v);
  std::set<int> keep(g.outputs.begin(), g.outputs.end());
  for (const SourceNode& n : g.nodes) {
    for (const std::string& name : captures(n)) keep.insert(g.find(name));
  }
  std::vector<char> gone(g.nodes.size());
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    SourceNode& n = g.nodes[i];
    for (int& v : n.inputs) v = v < 0 ? v : stands_for[static_cast<size_t>(v)];
    if (n.op != "Identity" || !n.domain.empty() || n.inputs.size() != 1 || n.outputs.size() != 1) continue;
    const int from = n.inputs[0], to = n.outputs[0];
    if (from < 0 || to < 0 || g.values[static_cast<size_t>(from)].kind != SourceKind::constant) continue;
    if (keep_aliases && !keep.count(to) && built.visible[static_cast<size_t>(to)] &&
        constant_valued(g.values[static_cast<size_t>(from)].data)) {
      make_copy(built, from, to);
      gone[i] = 1;
      continue;
    }
    stands_for[static_cast<size_t>(to)] = from;
    gone[i] = !keep.count(to);
  }
  drop_nodes(built, gone);
}

Built build_source(const ModelDoc& doc, bool keep_aliases) {
  Built built = SourceBuilder(doc).build();
  resolve_identities(built, keep_aliases);
  materialize_constant_filled(built);
  return built;
}

}  // namespace amp
