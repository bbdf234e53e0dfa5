// Removes parts of the file that a cut SourceGraph no longer has: outputs, then every node and initializer that is not
// needed. Shapes that depend on a resized weight are removed or updated, because ONNX's checker would reject them.
#include <set>

#include "importer/read/order.h"
#include "importer/surgery/edit.h"
#include "importer/write/patch.h"

namespace amp {
namespace {

using Names = std::set<std::string>;

// Removes the elements for which `keep` is false. Returns true if there were any.
template <class Field, class Keep>
bool filter(Field& field, const Keep& keep) {
  int to = 0;
  for (int i = 0; i < field.size(); ++i) {
    if (!keep(field[i])) continue;
    if (to != i) field.SwapElements(to, i);
    ++to;
  }
  const bool changed = to < field.size();
  if (changed) field.DeleteSubrange(to, field.size() - to);
  return changed;
}

// Returns the names of `values` in the file. If an added value took over the name of a value that the file still
// computes, the result includes that name.
Names names_of(const SourceGraph& g, const ModelDoc& doc, const std::vector<int>& values) {
  std::map<std::string, int> known;
  for (int v = 0; v < doc.values; ++v) known[doc.names[static_cast<size_t>(v)]] = v;
  Names names;
  for (int v : values) {
    // Nodes that exist only in training are skipped backward until a value of the file is reached.
    while (v >= doc.values) {
      const int p = g.values[static_cast<size_t>(v)].producer;
      if (p < 0 || g.nodes[static_cast<size_t>(p)].place != Place::training) break;
      v = g.nodes[static_cast<size_t>(p)].inputs.at(0);
    }
    if (v < doc.values) {
      names.insert(doc.names[static_cast<size_t>(v)]);
      continue;
    }
    const auto it = known.find(g.values[static_cast<size_t>(v)].name);
    if (it != known.end() && g.values[static_cast<size_t>(it->second)].producer >= 0) names.insert(it->first);
  }
  return names;
}

// Removes everything that neither a graph output nor an added node needs.
void prune(Patched& patched, const Names& wanted) {
  onnx::GraphProto& graph = *patched.proto.mutable_graph();
  Names needed = wanted;
  const std::vector<int> order = topological_order(graph.node());
  std::set<const onnx::NodeProto*> live;
  for (size_t i = order.size(); i-- > 0;) {
    const onnx::NodeProto& n = graph.node(order[i]);
    bool any = false;
    for (const std::string& o : n.output()) any |= needed.count(o) != 0;
    if (!any) continue;
    live.insert(&n);
    needed.insert(n.input().begin(), n.input().end());
    const Names captured = captured_names(n);
    needed.insert(captured.begin(), captured.end());
  }
  Names initializers;
  for (const auto& t : graph.initializer()) initializers.insert(t.name());
  for (const auto& t : graph.initializer()) {
    if (!needed.count(t.name())) patched.external.erase(&t);
  }
  for (auto& n : *graph.mutable_node()) {
    if (live.count(&n)) continue;
    for (auto& a : *n.mutable_attribute()) {
      if (a.has_t()) patched.external.erase(a.mutable_t());
    }
  }
  filter(*graph.mutable_node(), [&](const onnx::NodeProto& n) { return live.count(&n) != 0; });
  filter(*graph.mutable_initializer(), [&](const onnx::TensorProto& t) { return needed.count(t.name()) != 0; });
  // Data inputs are kept even if unused, because callers feed them by name. A weight that is not needed is removed from
  // the inputs, too.
  filter(*graph.mutable_input(),
         [&](const onnx::ValueInfoProto& i) { return !initializers.count(i.name()) || needed.count(i.name()) != 0; });
  filter(*graph.mutable_value_info(), [&](const onnx::ValueInfoProto& i) { return needed.count(i.name()) != 0; });
}

}  // namespace

void remove_cut(Patched& patched, const ModelDoc& doc, const SourceGraph& graph) {
  onnx::GraphProto& proto = *patched.proto.mutable_graph();
  const Names outputs = names_of(graph, doc, graph.outputs);
  const Names caches(doc.caches.begin(), doc.caches.end());
  const auto remains = [&](const onnx::ValueInfoProto& o) { return outputs.count(o.name()) != 0; };
  // The SourceGraph does not contain the caches. The file keeps them as long as all other outputs remain.
  const bool whole = std::all_of(proto.output().begin(), proto.output().end(),
                                 [&](const onnx::ValueInfoProto& o) { return remains(o) || caches.count(o.name()); });
  if (!whole) {
    filter(*proto.mutable_output(), remains);
    // Everything that neither outputs nor added nodes read is removed.
    std::vector<int> read = graph.outputs;
    for (const SourceNode& n : graph.nodes) {
      if (n.place == Place::file) continue;
      for (const int v : n.inputs) {
        if (v >= 0) read.push_back(v);
      }
    }
    prune(patched, names_of(graph, doc, read));
  }

  // Declared shapes that depend on a resized weight are wrong. Remove them, and update the shapes of outputs.
  std::vector<int> replaced;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].replaced) replaced.push_back(static_cast<int>(v));
  }
  if (replaced.empty()) return;
  const std::vector<char> after = downstream_of(graph, replaced);
  std::map<std::string, int> stale;
  for (int v = 0; v < doc.values; ++v) {
    if (after[static_cast<size_t>(v)]) stale[doc.names[static_cast<size_t>(v)]] = v;
  }
  filter(*proto.mutable_value_info(), [&](const onnx::ValueInfoProto& i) { return !stale.count(i.name()); });
  for (auto& o : *proto.mutable_output()) {
    const auto it = stale.find(o.name());
    if (it == stale.end()) continue;
    auto& type = *o.mutable_type()->mutable_tensor_type();
    const SourceValue& v = graph.values[static_cast<size_t>(it->second)];
    if (!v.rank_known || v.dims.size() != static_cast<size_t>(type.shape().dim_size())) {
      type.clear_shape();
      continue;
    }
    for (int d = 0; d < type.shape().dim_size(); ++d) {
      if (v.dims[static_cast<size_t>(d)].value >= 0)
        type.mutable_shape()->mutable_dim(d)->set_dim_value(v.dims[static_cast<size_t>(d)].value);
    }
  }
}

}  // namespace amp
