// Writes the nodes and values that surgery added to the SourceGraph into the file's ModelProto. Names must be unique in
// the whole file, including nested graphs. An added value may have taken over the name of a value of the file. Then the
// file's producer gets a new output name, so that all readers get the added value.
#include <algorithm>
#include <cstring>
#include <set>
#include <type_traits>

#include "base/error.h"
#include "base/text.h"
#include "graph/quantizer.h"
#include "importer/read/opsets.h"
#include "importer/read/order.h"
#include "importer/read/tensor.h"
#include "importer/write/patch.h"

namespace amp {
namespace {

void collect_names(const onnx::GraphProto& g, std::set<std::string>& names) {
  for (const auto& i : g.input()) names.insert(i.name());
  for (const auto& t : g.initializer()) names.insert(t.name());
  for (const auto& n : g.node()) {
    names.insert(n.output().begin(), n.output().end());
    for (const auto& a : n.attribute()) {
      if (a.has_g()) collect_names(a.g(), names);
      for (const auto& sub : a.graphs()) collect_names(sub, names);
    }
  }
}

void set_attribute(onnx::NodeProto& node, const std::string& name, const Attrs::Value& value) {
  using A = onnx::AttributeProto;
  A& a = *node.add_attribute();
  a.set_name(name);
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, int64_t>) {
          a.set_type(A::INT);
          a.set_i(v);
        } else if constexpr (std::is_same_v<T, double>) {
          a.set_type(A::FLOAT);
          a.set_f(static_cast<float>(v));
        } else if constexpr (std::is_same_v<T, std::string>) {
          a.set_type(A::STRING);
          a.set_s(v);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          a.set_type(A::INTS);
          for (const int64_t x : v) a.add_ints(x);
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          a.set_type(A::FLOATS);
          for (const double x : v) a.add_floats(static_cast<float>(x));
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          a.set_type(A::STRINGS);
          for (const std::string& x : v) a.add_strings(x);
        } else if constexpr (std::is_same_v<T, HostTensor>) {
          a.set_type(A::TENSOR);
          *a.mutable_t() = encode(v, "");
        } else {
          bug("a head node with a subgraph cannot be exported");
        }
      },
      value);
}

void set_type(onnx::ValueInfoProto& info, const std::string& name, DType dtype, const std::vector<Dim>& dims) {
  info.set_name(name);
  auto& t = *info.mutable_type()->mutable_tensor_type();
  t.set_elem_type(onnx_type_of(dtype));
  auto& shape = *t.mutable_shape();
  for (const Dim& d : dims) {
    auto& dim = *shape.add_dim();
    if (d.value >= 0) {
      dim.set_dim_value(d.value);
    } else if (!d.symbol.empty()) {
      dim.set_dim_param(d.symbol);
    }
  }
}

class Appender {
 public:
  Appender(onnx::ModelProto& proto, const ModelDoc& doc, const SourceGraph& graph)
      : proto_(proto), doc_(doc), graph_(graph) {
    collect_names(proto.graph(), taken_);
  }

  void run(const std::map<int, HostTensor>& values) {
    for (const SourceNode& n : graph_.nodes) {
      if (exported(n)) used_.insert(n.inputs.begin(), n.inputs.end());
    }
    for (const auto& [index, separated] : doc_.separated) add_separated(index, separated, values);
    for (size_t i = static_cast<size_t>(doc_.values); i < graph_.values.size(); ++i)
      add_value(static_cast<int>(i), values);
    for (const SourceNode& n : graph_.nodes) add_node(n);
    if (!moved_.empty()) sort();
    std::set<std::string> outputs;
    for (const auto& o : proto_.graph().output()) outputs.insert(o.name());
    for (const int v : graph_.outputs) {
      if (!outputs.count(name_in_file(v))) add_output(v);
    }
  }

 private:
  static bool left_out(const SourceNode& n) { return n.place == Place::training; }
  static bool exported(const SourceNode& n) { return n.place == Place::added; }

  // Returns the value's name in the file; empty if the file's main graph does not contain it. A value that a training
  // node replaces keeps its original name in the file. Its new name exists only in the SourceGraph.
  std::string name_in_file(int v) const {
    while (passed_.count(v)) v = passed_.at(v);
    if (const auto it = names_.find(v); it != names_.end()) return it->second;
    return v < doc_.values && doc_.visible[static_cast<size_t>(v)] ? doc_.names[static_cast<size_t>(v)] : std::string();
  }

  // If an added value took over this name from a value of the file, renames the output of the file's node. Every
  // reader, including nested graphs, then gets the added value.
  void free_name(const std::string& name) {
    const auto it = std::find(doc_.names.begin(), doc_.names.end(), name);
    if (it == doc_.names.end()) return;
    const int v = static_cast<int>(it - doc_.names.begin());
    const std::string now = graph_.values[static_cast<size_t>(v)].name;
    // the value was cut off, so its name is free
    if (now == name || graph_.values[static_cast<size_t>(v)].producer < 0) return;
    for (auto& n : *proto_.mutable_graph()->mutable_node()) {
      for (auto& o : *n.mutable_output()) {
        if (o != name) continue;
        if (!doc_.visible[static_cast<size_t>(v)]) break;
        moved_[v] = o = take_name(now);
        taken_.erase(name);
        return;
      }
    }
    fail(Exit::unsupported, "E_EXPORT_INNER",
         cat("'", printable(name),
             "' is a value inside a local function or a branch of the file: no node can be added after it"),
         "export adapters merged (`lora_export` merge)");
  }

  void sort() {
    auto& nodes = *proto_.mutable_graph()->mutable_node();
    NodeProtos sorted;
    for (const int i : topological_order(nodes)) sorted.Add()->Swap(&nodes[i]);
    nodes.Swap(&sorted);
  }

  std::string take_name(const std::string& wanted) {
    std::string name = wanted;
    for (int k = 1; !taken_.insert(name).second; ++k) name = cat(wanted, "_", k);
    return name;
  }

  // If training made a copy of a shared tensor differ from it, writes the copy as a separate initializer and connects
  // the nodes that read the copy.
  void add_separated(int index, const ModelDoc::Separated& s, const std::map<int, HostTensor>& values) {
    const SourceValue& v = graph_.values[static_cast<size_t>(index)];
    const SourceValue& shared = graph_.values[static_cast<size_t>(s.of)];
    const HostTensor mine = new_value(index, values), theirs = new_value(s.of, values);
    if (!v.replaced && !shared.replaced && mine.dims() == theirs.dims() &&
        std::memcmp(mine.data(), theirs.data(), static_cast<size_t>(mine.bytes())) == 0)
      return;
    const std::string& file_name = doc_.names[static_cast<size_t>(index)];
    const bool alias = remove_identity(file_name);
    const std::string name = alias ? file_name : take_name(v.name);
    add_initializer(mine, name);
    for (auto& n : *proto_.mutable_graph()->mutable_node()) {
      for (const ModelDoc::Reader& r : s.readers) {
        if (n.output_size() > 0 && n.output(0) == r.output) n.set_input(r.input, name);
      }
    }
  }

  // Returns the value as the file stores it. A value that was not trained still holds the file's bytes.
  HostTensor new_value(int index, const std::map<int, HostTensor>& values) const {
    const SourceValue& v = graph_.values[static_cast<size_t>(index)];
    const auto trained = values.find(index);
    if (trained != values.end()) return narrow(trained->second, v.data.dtype(), v.name);
    return v.data;
  }

  bool remove_identity(const std::string& output) {
    auto& nodes = *proto_.mutable_graph()->mutable_node();
    for (int i = 0; i < nodes.size(); ++i) {
      if (nodes[i].op_type() != "Identity" || nodes[i].output_size() != 1 || nodes[i].output(0) != output) continue;
      nodes.DeleteSubrange(i, 1);
      return true;
    }
    return false;
  }

  void add_initializer(const HostTensor& data, const std::string& name) {
    *proto_.mutable_graph()->add_initializer() = encode(data, name);
    if (proto_.ir_version() >= 4) return;
    std::vector<Dim> dims;  // before IR version 4 initializers must also be graph inputs
    for (const int64_t d : data.dims()) dims.push_back({d, ""});
    set_type(*proto_.mutable_graph()->add_input(), name, data.dtype(), dims);
  }

  void add_value(int index, const std::map<int, HostTensor>& values) {
    const SourceValue& v = graph_.values[static_cast<size_t>(index)];
    if (v.producer >= 0 && exported(graph_.nodes[static_cast<size_t>(v.producer)])) free_name(v.name);
    const std::string name = names_[index] = take_name(v.name);
    if ((v.kind != SourceKind::parameter && v.kind != SourceKind::constant) || !used_.count(index)) return;
    const auto trained = values.find(index);
    add_initializer(trained == values.end() ? v.data : narrow(trained->second, v.data.dtype(), name), name);
    if (v.kind != SourceKind::constant) return;
    // Marks the constant for later imports, which would have to guess: DoRA's norm of W looks like a bias.
    auto& entry = *proto_.mutable_graph()->mutable_initializer()->rbegin()->add_metadata_props();
    entry.set_key(kAddedConstant);
    entry.set_value("true");
  }

  // Returns the file's name of a value that an added node reads. Throws E_EXPORT_INNER (Exit::unsupported) for a value
  // inside a local function or branch.
  std::string name_of_value(int v) const {
    while (passed_.count(v)) v = passed_.at(v);
    if (const auto it = names_.find(v); it != names_.end()) return it->second;
    if (const auto it = moved_.find(v); it != moved_.end()) return it->second;
    const SourceValue& value = graph_.values[static_cast<size_t>(v)];
    if (!doc_.visible[static_cast<size_t>(v)]) {
      fail(Exit::unsupported, "E_EXPORT_INNER",
           cat("the head reads '", printable(value.name), "', a value inside a local function or a branch of the file"),
           "attach it to a value of the main graph");
    }
    return doc_.names[static_cast<size_t>(v)];
  }

  void add_node(const SourceNode& n) {
    if (left_out(n)) passed_[n.outputs.at(0)] = n.inputs.at(0);
    if (!exported(n)) return;
    import_domain(n.domain, n.version);
    onnx::NodeProto& node = *proto_.mutable_graph()->add_node();
    node.set_name(n.name);
    node.set_op_type(n.op);
    node.set_domain(n.domain);
    for (const int v : n.inputs) node.add_input(v < 0 ? std::string() : name_of_value(v));
    for (const int v : n.outputs) node.add_output(v < 0 ? std::string() : names_.at(v));
    for (const auto& [name, value] : n.attrs.items()) {
      if (name != kDetached) set_attribute(node, name, value);  // files lack kDetached: only training reads it
    }
  }

  void add_output(int v) {
    const SourceValue& value = graph_.values[static_cast<size_t>(v)];
    std::string name = name_of_value(v);
    if (passed_.count(v)) {
      onnx::NodeProto& node = *proto_.mutable_graph()->add_node();
      node.set_name(cat(names_.at(v), "/Identity"));
      node.set_op_type("Identity");
      node.add_input(name);
      node.add_output(name = names_.at(v));
    }
    set_type(*proto_.mutable_graph()->add_output(), name, value.dtype, value.dims);
    if (!value.rank_known)
      proto_.mutable_graph()->mutable_output()->rbegin()->mutable_type()->mutable_tensor_type()->clear_shape();
  }

  void import_domain(const std::string& domain, int64_t version) {
    for (const auto& o : proto_.opset_import()) {
      if (standard(o.domain()) == domain) return;
    }
    auto& o = *proto_.add_opset_import();
    o.set_domain(domain);
    o.set_version(version);
  }

  onnx::ModelProto& proto_;
  const ModelDoc& doc_;
  const SourceGraph& graph_;
  std::set<std::string> taken_;
  std::set<int> used_;                // indices of the values that added nodes read
  std::map<int, std::string> names_;  // index of an added value -> its name
  std::map<int, int> passed_;         // output of an omitted node -> its first input
  std::map<int, std::string> moved_;  // value of the file -> its new name
};

}  // namespace

void append_added(onnx::ModelProto& proto, const ModelDoc& doc, const SourceGraph& graph,
                  const std::map<int, HostTensor>& values) {
  Appender(proto, doc, graph).run(values);
}

}  // namespace amp
