// SourceBuilder: inlines function calls and branches into the surrounding graph. Each call gets a separate Scope, in
// which the function's outputs become values of the caller (Scope::bound). Recursion and depth of calls are limited,
// because the file may be hostile.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "importer/read/builder.h"
#include "importer/read/names.h"
#include "importer/read/order.h"

namespace amp {
namespace {

constexpr size_t kMaxCallDepth = 100;

bool visible_around(const Scope& scope, const std::string& name) {
  for (const Scope* s = &scope; s->outer; s = s->outer) {
    if (s->outer->values.count(name) && !s->results.count(name)) return true;
  }
  return false;
}

// True if a node, a nested graph or an output of the graph reads the name.
bool reads(const onnx::GraphProto& graph, const std::string& name) {
  for (const auto& n : graph.node()) {
    if (std::find(n.input().begin(), n.input().end(), name) != n.input().end() || captured_names(n).count(name))
      return true;
  }
  return std::any_of(graph.output().begin(), graph.output().end(), [&](const auto& o) { return o.name() == name; });
}

}  // namespace

// Throws E_SSA if a node or an initializer of a nested graph defines the name of an outer value. ONNX forbids this, and
// engines disagree about it. onnxruntime refuses such nodes; for initializers it reads the inner or the outer tensor
// depending on its optimization level. onnx.reference reads the outer tensor. A body's input shadows the outer value,
// here as in onnxruntime.
void SourceBuilder::refuse_shadows(const Scope& scope, const onnx::GraphProto& graph) const {
  const auto refuse = [&](const std::string& name, const std::string& what) {
    fail(Exit::model, "E_SSA",
         cat(what, " '", printable(name), "' of the inner graph '", printable(graph.name()),
             "' has the name of a value outside of that graph"),
         "rename one of them: ONNX forbids this, and engines disagree about which of the two is read");
  };
  for (const auto& t : graph.initializer()) {
    if (visible_around(scope, t.name()) && reads(graph, t.name())) refuse(t.name(), "initializer");
  }
  for (const auto& n : graph.node()) {
    for (const std::string& o : n.output()) {
      if (!o.empty() && visible_around(scope, o)) refuse(o, "value");
    }
  }
}

void SourceBuilder::add_call(Scope& scope, const onnx::NodeProto& node, const onnx::FunctionProto& f,
                             const AttrTable& attrs, bool standard) {
  for (const auto* active : calls_) {
    if (active != &f) continue;
    std::string path;
    for (const auto* c : calls_) path += printable(c->name()) + " -> ";
    fail(Exit::model, "E_FUNC_CYCLE", cat("local functions call each other in a cycle: ", path, printable(f.name())));
  }
  if (calls_.size() >= kMaxCallDepth) {
    fail(Exit::model, "E_FUNC_LIMIT", cat("local functions are nested more than ", kMaxCallDepth, " deep"));
  }
  if (node.input_size() > f.input_size() || node.output_size() > f.output_size()) {
    fail(Exit::model, "E_ATTR",
         cat("local function '", printable(f.name()), "' takes ", f.input_size(), " inputs and gives ", f.output_size(),
             " outputs; the call has ", node.input_size(), " and ", node.output_size()));
  }
  AttrTable arguments;
  for (const std::string& name : f.attribute()) {
    if (const auto it = attrs.find(name); it != attrs.end()) arguments.insert(*it);
  }
  for (const auto& a : f.attribute_proto()) {
    const auto it = attrs.find(a.name());
    arguments[a.name()] = it == attrs.end() ? &a : it->second;
  }
  Opsets opsets = opsets_of(f.opset_import());
  opsets.insert(opsets_.begin(), opsets_.end());

  const std::string name = node_name(scope, node, static_cast<int>(scope.graph->nodes.size()));
  Scope inner;
  inner.graph = scope.graph;
  inner.arguments = &arguments;
  inner.opsets = &opsets;
  inner.prefix = name;
  inner.module = module_of(scope, node);
  inner.standard = standard && scope.standard.empty() ? node.op_type() : scope.standard;
  for (int i = 0; i < f.input_size(); ++i) {
    const bool given = i < node.input_size() && !node.input(i).empty();
    inner.values[f.input(i)] = given ? need(scope, node.input(i)) : kAbsent;
  }
  for (int i = 0; i < node.output_size(); ++i) {
    if (!node.output(i).empty()) inner.bound[f.output(i)] = declare(scope, node.output(i));
  }
  calls_.push_back(&f);
  add_nodes(inner, f.node());
  calls_.pop_back();
  finish_inlined(inner, name);
}

bool SourceBuilder::add_branch(Scope& scope, const onnx::NodeProto& node, const AttrTable& attrs) {
  if (node.input_size() != 1) return false;
  const HostTensor* condition = constant_source(*scope.graph, need(scope, node.input(0)));
  if (!condition || condition->dtype() != DType::boolean || condition->numel() != 1) return false;
  const auto branch = attrs.find(*condition->as<bool>() ? "then_branch" : "else_branch");
  if (branch == attrs.end() || !branch->second->has_g()) fail(Exit::model, "E_ATTR", "If lacks a branch");
  const onnx::GraphProto& g = branch->second->g();
  if (node.output_size() > g.output_size()) fail(Exit::model, "E_ATTR", "If has more outputs than its branch");
  Scope inner;
  inner.outer = &scope;
  inner.graph = scope.graph;
  inner.arguments = scope.arguments;
  inner.opsets = scope.opsets;
  inner.prefix = scope.prefix;
  inner.module = module_of(scope, node);
  inner.standard = scope.standard;
  const std::string name = node_name(scope, node, static_cast<int>(scope.graph->nodes.size()));
  for (int i = 0; i < node.output_size(); ++i) {
    if (!node.output(i).empty()) inner.bound[g.output(i).name()] = declare(scope, node.output(i));
  }
  inner.results.insert(node.output().begin(), node.output().end());
  refuse_shadows(inner, g);
  add_initializers(inner, g);
  add_nodes(inner, g.node());
  finish_inlined(inner, name);
  return true;
}

// Adds an Identity with the caller's name for each output of the body that is an input or a constant of the body.
void SourceBuilder::finish_inlined(Scope& inner, const std::string& node_name) {
  for (const auto& [name, target] : inner.bound) {
    const int v = need(inner, name);
    if (v != target) emit_identity(inner, cat(node_name, "/", name), v, target);
  }
}

void SourceBuilder::emit_identity(Scope& scope, const std::string& name, int from, int to) {
  SourceNode n;
  n.name = name;
  for (int i = 1; !node_names_[scope.graph].insert(n.name).second; ++i) n.name = cat(name, "_", i);
  n.op = "Identity";
  n.version = opsets_.count("") ? opsets_.at("") : 0;
  n.inputs = {from};
  n.outputs = {to};
  scope.graph->add_node(std::move(n));
  if (scope.graph == top_.graph) out_.scopes.push_back(scope.module);
}

}  // namespace amp
