// SourceBuilder: inlines operators that ops/ does not lower but that the ONNX standard defines by a function of other
// operators. Context-dependent functions are built by the ONNX library from the input types, so element_type() infers
// types as far as schemas determine them.
#include <onnx/defs/schema.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/op.h"
#include "importer/read/builder.h"
#include "importer/read/tensor.h"

namespace amp {
namespace {

using Parameters = std::vector<onnx::OpSchema::FormalParameter>;

// Returns the formal parameter at position i, or null. The last parameter of a variadic list covers all further
// positions.
const onnx::OpSchema::FormalParameter* parameter(const Parameters& list, size_t i) {
  if (i < list.size()) return &list[i];
  return !list.empty() && list.back().GetOption() == onnx::OpSchema::Variadic ? &list.back() : nullptr;
}

std::optional<DType> only_type(const onnx::OpSchema::FormalParameter& p) {
  if (p.GetTypes().size() != 1) return {};
  const onnx::TypeProto& t = onnx::Utils::DataTypeUtils::ToTypeProto(*p.GetTypes().begin());
  return t.has_tensor_type() ? dtype_of(t.tensor_type().elem_type()) : std::nullopt;
}

// Returns the element type of output o, if the operator's schema and the input types determine it.
std::optional<DType> output_type(const SourceNode& n, size_t o, const std::vector<std::optional<DType>>& types) {
  const auto input = [&](size_t i) -> std::optional<DType> {
    return i < n.inputs.size() && n.inputs[i] >= 0 ? types[static_cast<size_t>(n.inputs[i])] : std::nullopt;
  };
  if (n.op == "Cast") return dtype_of(static_cast<int>(n.attrs.i("to", 0)));
  if (n.op == "ConstantOfShape") {
    const HostTensor* value = n.attrs.tensor("value");
    return value ? value->dtype() : DType::f32;
  }
  if (n.attrs.has("dtype")) return dtype_of(static_cast<int>(n.attrs.i("dtype", 0)));
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(n.op, static_cast<int>(n.version), n.domain);
  if (!schema) return input(0);
  const auto* out = parameter(schema->outputs(), o);
  if (!out) return {};
  if (const auto fixed = only_type(*out)) return fixed;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const auto* in = parameter(schema->inputs(), i);
    if (in && in->GetTypeStr() == out->GetTypeStr() && input(i)) return input(i);
  }
  return {};
}

}  // namespace

// Returns the element type of the value, if it is known or can be inferred. Nodes are in topological order, so one pass
// over the nodes added since the last call is enough.
std::optional<DType> SourceBuilder::element_type(const SourceGraph& g, int value) {
  Types& t = types_[&g];
  for (size_t v = t.of.size(); v < g.values.size(); ++v) {
    const SourceValue& x = g.values[v];
    t.of.push_back(x.data ? std::optional(x.data.dtype()) : x.dtype_known ? std::optional(x.dtype) : std::nullopt);
  }
  for (; t.nodes < g.nodes.size(); ++t.nodes) {
    const SourceNode& n = g.nodes[t.nodes];
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      if (n.outputs[o] < 0) continue;
      auto& type = t.of[static_cast<size_t>(n.outputs[o])];
      if (!type) type = output_type(n, o, t.of);
    }
  }
  return t.of[static_cast<size_t>(value)];
}

// Returns the types of the node's inputs, for a context-dependent function. The entry of an input is empty if its type
// is not known.
std::vector<onnx::TypeProto> SourceBuilder::input_types(Scope& scope, const onnx::NodeProto& node) {
  std::vector<onnx::TypeProto> types;
  for (const std::string& name : node.input()) {
    onnx::TypeProto& type = types.emplace_back();
    const int v = name.empty() ? kAbsent : need(scope, name);
    if (v < 0) continue;
    const auto element = element_type(*scope.graph, v);
    if (!element) continue;
    type.mutable_tensor_type()->set_elem_type(onnx_type_of(*element));
    const SourceValue& value = scope.graph->values[static_cast<size_t>(v)];
    if (!value.rank_known) continue;
    auto* shape = type.mutable_tensor_type()->mutable_shape();
    for (const Dim& d : value.dims) {
      auto* dim = shape->add_dim();
      if (d.value >= 0) dim->set_dim_value(d.value);
      if (!d.symbol.empty()) dim->set_dim_param(d.symbol);
    }
  }
  return types;
}

const onnx::FunctionProto* SourceBuilder::standard_body(Scope& scope, const onnx::NodeProto& node, AttrTable& attrs) {
  const std::string domain = standard(node.domain());
  const auto imported = scope.opsets->find(domain);
  const int version = static_cast<int>(imported == scope.opsets->end() ? 1 : imported->second);
  if (find_onnx_op(domain, node.op_type(), version)) return nullptr;
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), version, domain);
  if (!schema) return nullptr;
  const onnx::FunctionProto* body = schema->HasFunction() ? schema->GetFunction(version) : nullptr;
  if (!body && schema->HasContextDependentFunction()) {
    // The ONNX library's builders require that the node is complete and typed.
    for (const auto& [name, a] : schema->attributes()) {
      if (a.required && !attrs.count(name)) return nullptr;
    }
    const std::vector<onnx::TypeProto> types = input_types(scope, node);
    for (int i = 0; i < node.input_size(); ++i) {
      if (!node.input(i).empty() && !types[static_cast<size_t>(i)].has_tensor_type()) return nullptr;
    }
    for (size_t i = 0; i < schema->inputs().size(); ++i) {
      const bool given = static_cast<int>(i) < node.input_size() && !node.input(static_cast<int>(i)).empty();
      if (schema->inputs()[i].GetOption() == onnx::OpSchema::Single && !given) return nullptr;
    }
    // The builder reads resolved attributes from the node, so it receives a copy of the node with resolved attributes.
    onnx::NodeProto resolved = node;
    resolved.clear_attribute();
    for (const auto& [name, a] : attrs) {
      auto* copy = resolved.add_attribute();
      *copy = *a;
      copy->set_name(name);
      copy->clear_ref_attr_name();
    }
    onnx::FunctionProto& built = standard_bodies_.emplace_back();
    const onnx::FunctionBodyBuildContextImpl context(resolved, types);
    if (!schema->BuildContextDependentFunction(context, built, version)) return nullptr;
    body = &built;
  }
  if (!body) return nullptr;
  // The function's body may refer to attributes that the node leaves out, so their defaults are added.
  for (const auto& [name, a] : schema->attributes()) {
    if (!a.default_value.name().empty()) attrs.emplace(name, &a.default_value);
  }
  if (expanded_.insert(cat(domain, "::", node.op_type())).second) {
    out_.notes.push_back(cat("operator ", domain.empty() ? "" : domain + "::", printable(node.op_type()),
                             " is computed by its definition in the ONNX standard, as ", body->node_size(), " nodes"));
  }
  return body;
}

}  // namespace amp
