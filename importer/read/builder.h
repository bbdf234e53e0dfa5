// SourceBuilder converts the graph of an onnx::ModelProto for build_source(); see importer/read/build.h.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "importer/read/build.h"
#include "importer/read/opsets.h"

namespace amp {

using AttrTable = std::map<std::string, const onnx::AttributeProto*>;

// A namespace in which names are looked up: the top-level graph, a function body, a branch or a loop body.
struct Scope {
  Scope* outer = nullptr;                // the enclosing scope; null for the top-level graph and for functions
  SourceGraph* graph = nullptr;          // receives this scope's nodes
  const AttrTable* arguments = nullptr;  // attributes of the function call
  const Opsets* opsets = nullptr;
  std::string prefix;                           // prefix of the names that are created inside a function
  std::string module;                           // module path of the calling node
  std::string standard;                         // the ONNX operator whose decomposition is being inlined, or empty
  std::map<std::string, int> bound;             // output name inside -> value of the caller that it becomes
  std::set<std::string> results;                // outputs of the If whose branch is inlined; not visible in the branch
  std::unordered_map<std::string, int> values;  // name -> value; -1: a function input that the call leaves out
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
  // Throws E_SSA if a name of the graph hides a name of an outer scope.
  void refuse_shadows(const Scope& scope, const onnx::GraphProto& graph) const;
  void add_nodes(Scope& scope, const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes);
  void add_node(Scope& scope, const onnx::NodeProto& node);
  void add_constant_node(Scope& scope, const onnx::NodeProto& node, const AttrTable& attrs);
  void add_call(Scope& scope, const onnx::NodeProto& node, const onnx::FunctionProto& f, const AttrTable& attrs,
                bool standard);
  // Returns the function by which ONNX defines the operator, if it has one and ops/ has no lowering; else null. Adds
  // the attributes' defaults to attrs.
  const onnx::FunctionProto* standard_body(Scope& scope, const onnx::NodeProto& node, AttrTable& attrs);
  std::vector<onnx::TypeProto> input_types(Scope& scope, const onnx::NodeProto& node);
  std::optional<DType> element_type(const SourceGraph& graph, int value);
  bool add_branch(Scope& scope, const onnx::NodeProto& node, const AttrTable& attrs);
  void emit(Scope& scope, const onnx::NodeProto& node, const AttrTable& attrs);
  void emit_identity(Scope& scope, const std::string& name, int from, int to);
  void finish_inlined(Scope& inner, const std::string& node_name);

  int lookup(Scope& scope, const std::string& name);
  int need(Scope& scope, const std::string& name);  // like lookup(), but throws E_DANGLING if the name is unknown
  int declare(Scope& scope, const std::string& name);
  int add_constant(Scope& scope, const std::string& name, HostTensor data, const void* place);
  // Adds a floating-point tensor of a branch or loop body to the top-level graph, where it can be trained, and captures
  // it from there.
  int hoist(Scope& scope, const std::string& name, HostTensor data, int slot);
  const HostTensor* constant_source(const SourceGraph& graph, int value) const;
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
  std::vector<const onnx::FunctionProto*> calls_;                  // functions whose calls are being inlined
  std::unordered_map<const void*, int> slots_;                     // TensorProto or AttributeProto -> slot
  std::unordered_map<int, int> by_slot_;                           // slot -> value of the top SourceGraph
  std::unordered_map<std::string, const onnx::TypeProto*> hints_;  // name -> type in the file's value_info
  std::set<std::string> reserved_, reserved_nodes_;                // names used in the file's top-level graph
  std::map<const SourceGraph*, std::set<std::string>> node_names_;
  std::map<std::string, std::string> unsupported_;  // value -> its type; all are reported in one error
  int64_t nodes_ = 0;

  struct Types {  // element types of a graph's values, as far as known, and how many of its nodes have been processed
    std::vector<std::optional<DType>> of;
    size_t nodes = 0;
  };
  std::map<const SourceGraph*, Types> types_;
  std::deque<onnx::FunctionProto> standard_bodies_;  // one per inlined node; attributes and tensors point into them
  std::set<std::string> expanded_;
  std::vector<SourceGraph*> bodies_;  // graphs of nodes under construction, outermost first
};

// Replaces uses of Identity(constant) by the constant and removes nodes and values that are then unused.
void resolve_identities(Built& built);

// Removes the nodes whose entry in `gone` is 1, and the values that they produce. The order of the remaining nodes is
// kept.
void drop_nodes(Built& built, const std::vector<char>& gone);

}  // namespace amp
