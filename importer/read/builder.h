// The walk behind build_source(); see importer/read/build.h.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "importer/read/build.h"

namespace amp {

using AttrTable = std::map<std::string, const onnx::AttributeProto*>;
using Opsets = std::map<std::string, int64_t>;

inline std::string standard(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

template <class Imports>
Opsets opsets_of(const Imports& imports) {
  Opsets out;
  for (const auto& o : imports) out[standard(o.domain())] = o.version();
  return out;
}

// Where names are looked up: the graph, a function body, a branch or a body.
struct Scope {
  Scope* outer = nullptr;                // lexically around it; none for the graph and for functions
  SourceGraph* graph = nullptr;          // where its nodes go
  const AttrTable* arguments = nullptr;  // attributes of the function call
  const Opsets* opsets = nullptr;
  std::string prefix;                           // functions: put before names made inside
  std::string module;                           // module path of the calling node
  std::string standard;                         // the operator whose definition in the ONNX standard this is inside of
  std::map<std::string, int> bound;             // name inside -> value of the caller that it is to become
  std::set<std::string> results;                // outputs of the If around an inlined branch: not visible in it
  std::unordered_map<std::string, int> values;  // -1: a function input that the call leaves out
};

class SourceBuilder {
 public:
  explicit SourceBuilder(const ModelDoc& doc);
  Built build();

 private:
  static constexpr int kAbsent = -1, kUnknown = -2;

  void top_level();
  void add_input(Scope& scope, const onnx::ValueInfoProto& info);
  void add_initializers(Scope& scope, const onnx::GraphProto& graph);
  void refuse_shadows(const Scope& scope, const onnx::GraphProto& graph) const;  // E_SSA
  void add_nodes(Scope& scope, const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes);
  void add_node(Scope& scope, const onnx::NodeProto& node);
  void add_constant_node(Scope& scope, const onnx::NodeProto& node, const AttrTable& attrs);
  void add_call(Scope& scope, const onnx::NodeProto& node, const onnx::FunctionProto& f, const AttrTable& attrs,
                bool standard);
  // The body by which ONNX defines the operator, when it has one and no lowering; adds default attributes. Else null.
  const onnx::FunctionProto* standard_body(Scope& scope, const onnx::NodeProto& node, AttrTable& attrs);
  std::vector<onnx::TypeProto> input_types(Scope& scope, const onnx::NodeProto& node);
  std::optional<DType> element_type(const SourceGraph& graph, int value);
  bool add_branch(Scope& scope, const onnx::NodeProto& node, const AttrTable& attrs);
  void emit(Scope& scope, const onnx::NodeProto& node, const AttrTable& attrs);
  void emit_identity(Scope& scope, const std::string& name, int from, int to);
  void finish_inlined(Scope& inner, const std::string& node_name);

  int lookup(Scope& scope, const std::string& name);
  int need(Scope& scope, const std::string& name);  // E_DANGLING
  int declare(Scope& scope, const std::string& name);
  int add_constant(Scope& scope, const std::string& name, HostTensor data, const void* place);
  // A floating tensor of a branch or body: held by the top graph, where it can be trained, and captured from there.
  int hoist(Scope& scope, const std::string& name, HostTensor data, int slot);
  const HostTensor* constant_behind(const SourceGraph& graph, int value) const;
  HostTensor payload(const onnx::TensorProto& t, const std::string& what);

  std::string value_name(const Scope& scope, const std::string& name, bool constant) const;
  std::string node_name(const Scope& scope, const onnx::NodeProto& node, int index);
  std::string module_of(const Scope& scope, const onnx::NodeProto& node) const;
  AttrTable resolve(const Scope& scope, const onnx::NodeProto& node) const;
  Attrs convert(Scope& scope, const AttrTable& table);
  std::shared_ptr<SourceGraph> subgraph(Scope& scope, const onnx::GraphProto& graph);

  const ModelDoc& doc_;
  const onnx::ModelProto& model_;
  Built out_;
  Scope top_;
  Opsets opsets_;
  std::map<std::tuple<std::string, std::string, std::string>, const onnx::FunctionProto*> functions_;
  std::vector<const onnx::FunctionProto*> calls_;                  // being inlined
  std::unordered_map<const void*, int> slots_;                     // TensorProto or AttributeProto -> slot
  std::unordered_map<int, int> by_slot_;                           // slot -> value of the top SourceGraph
  std::unordered_map<std::string, const onnx::TypeProto*> hints_;  // value_info
  std::set<std::string> reserved_, reserved_nodes_;                // names that the top graph of the file uses
  std::map<const SourceGraph*, std::set<std::string>> node_names_;
  std::map<std::string, std::string> unsupported_;  // what -> its type: told all at once
  int64_t nodes_ = 0;

  struct Types {  // element types of a graph's values as far as known, and how many of its nodes were looked at
    std::vector<std::optional<DType>> of;
    size_t nodes = 0;
  };
  std::map<const SourceGraph*, Types> types_;
  std::deque<onnx::FunctionProto> standard_bodies_;  // built for one node each; attributes and tensors are pointed to
  std::set<std::string> expanded_;
  std::vector<SourceGraph*> bodies_;  // graphs inside nodes that are being built, the outermost first
};

// Replaces uses of Identity(constant) by the constant and drops values and nodes that only named it.
void resolve_identities(Built& built);

// Removes nodes (1: gone) and the temps that they make; everything else keeps its order.
void drop_nodes(Built& built, const std::vector<char>& gone);

}  // namespace amp
