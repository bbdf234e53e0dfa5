// Implements SourceBuilder's unique names for inlined nodes and values, and its conversion of attributes. Names of the
// file's top-level graph are kept. Other names get the prefix of their call, and a number if they collide.
#include "base/error.h"
#include "base/text.h"
#include "importer/read/builder.h"
#include "importer/read/names.h"
#include "importer/read/tensor.h"

namespace amp {

std::string SourceBuilder::value_name(const Scope& scope, const std::string& name, bool constant) const {
  if (&scope == &top_) return name;
  const auto taken = [&](const std::string& n) {
    return scope.graph->find(n) >= 0 || (scope.graph == top_.graph && reserved_.count(n));
  };
  const bool keep = constant || scope.prefix.empty();
  if (keep && !taken(name)) return name;
  const std::string stem = scope.prefix.empty() ? name : cat(scope.prefix, "/", name);
  std::string candidate = stem;
  for (int i = 1; taken(candidate); ++i) candidate = cat(stem, "_", i);
  return candidate;
}

std::string SourceBuilder::node_name(const Scope& scope, const onnx::NodeProto& node, int index) {
  std::set<std::string>& used = node_names_[scope.graph];
  std::string stem = node.name();
  if (stem.empty()) stem = cat(node.op_type(), "_", index);
  if (!scope.prefix.empty()) stem = cat(scope.prefix, "/", stem);
  const bool own = &scope == &top_ && !node.name().empty();
  std::string name = stem;
  for (int i = 1; used.count(name) || (!(own && name == stem) && reserved_nodes_.count(name)); ++i) {
    name = cat(stem, "_", i);
  }
  used.insert(name);
  return name;
}

std::string SourceBuilder::module_of(const Scope& scope, const onnx::NodeProto& node) const {
  const std::string module = module_path(node);
  return module.empty() ? scope.module : module;
}

// ---- attributes

AttrTable SourceBuilder::resolve(const Scope& scope, const onnx::NodeProto& node) const {
  AttrTable table;
  std::set<std::string> names;
  for (const auto& a : node.attribute()) {
    if (!names.insert(a.name()).second) {
      fail(Exit::model, "E_ATTR", cat("attribute '", printable(a.name()), "' occurs twice"));
    }
    if (a.ref_attr_name().empty()) {
      table[a.name()] = &a;
    } else if (scope.arguments) {
      if (const auto it = scope.arguments->find(a.ref_attr_name()); it != scope.arguments->end())
        table[a.name()] = it->second;
    } else {
      fail(Exit::model, "E_ATTR",
           cat("attribute '", printable(a.name()), "' refers to a function's attribute outside a function"));
    }
  }
  return table;
}

Attrs SourceBuilder::convert(Scope& scope, const AttrTable& table) {
  using A = onnx::AttributeProto;
  Attrs out;
  for (const auto& [name, a] : table) {
    switch (a->type()) {
      case A::FLOAT:
        out.set(name, static_cast<double>(a->f()));
        break;
      case A::INT:
        out.set(name, static_cast<int64_t>(a->i()));
        break;
      case A::STRING:
        out.set(name, a->s());
        break;
      case A::FLOATS:
        out.set(name, std::vector<double>(a->floats().begin(), a->floats().end()));
        break;
      case A::INTS:
        out.set(name, std::vector<int64_t>(a->ints().begin(), a->ints().end()));
        break;
      case A::STRINGS:
        out.set(name, std::vector<std::string>(a->strings().begin(), a->strings().end()));
        break;
      case A::TENSOR:
        if (dtype_of(a->t().data_type())) out.set(name, payload(a->t(), cat("attribute '", printable(name), "'")));
        break;
      case A::GRAPH:
        out.set(name, std::shared_ptr<const SourceGraph>(subgraph(scope, a->g())));
        break;
      case A::UNDEFINED:
        fail(Exit::model, "E_ATTR", cat("attribute '", printable(name), "' has no type"));
      default:
        break;  // type_proto, sparse_tensor, lists of tensors or of graphs: supported operators do not use them
    }
  }
  return out;
}

std::shared_ptr<SourceGraph> SourceBuilder::subgraph(Scope& scope, const onnx::GraphProto& graph) {
  auto sub = std::make_shared<SourceGraph>();
  sub->name = graph.name();
  sub->opsets = opsets_;
  Scope inner;
  inner.outer = &scope;
  inner.graph = sub.get();
  inner.arguments = scope.arguments;
  inner.opsets = scope.opsets;
  inner.standard = scope.standard;
  bodies_.push_back(sub.get());
  refuse_shadows(inner, graph);
  for (const auto& i : graph.input()) add_input(inner, i);
  add_initializers(inner, graph);
  add_nodes(inner, graph.node());
  for (const auto& o : graph.output()) sub->outputs.push_back(need(inner, o.name()));
  node_names_.erase(sub.get());
  bodies_.pop_back();
  return sub;
}

}  // namespace amp
