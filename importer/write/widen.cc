// Replaces every declared 16-bit element type by FLOAT: tensors, attributes that determine an output type, and value
// infos, in the main graph and in nested graphs. Engines infer the types in between, so a node that read and wrote
// float16 then reads and writes float32. A Cast between the two becomes an identity.
#include "importer/write/widen.h"

#include <onnx/inliner/inliner.h>

#include <set>
#include <string>
#include <vector>

#include "base/cat.h"
#include "base/text.h"
#include "importer/read/doc.h"
#include "importer/read/tensor.h"

namespace amp {
namespace {

using T = onnx::TensorProto;

bool low(int type) { return type == T::FLOAT16 || type == T::BFLOAT16; }

// True for integer attributes whose value is the element type of an output or of internal arithmetic.
bool names_type(const onnx::AttributeProto& a) {
  return a.type() == onnx::AttributeProto::INT &&
         one_of(a.name(), {"to", "dtype", "output_dtype", "output_datatype", "stash_type", "softmax_precision"});
}

class FloatConversion {
 public:
  explicit FloatConversion(onnx::ModelProto& model) : g_(*model.mutable_graph()) {}

  void run() {
    collect_names(g_);
    keep_outputs();  // before the inputs, because an output may also be an input
    keep_inputs();
    retype(g_, true);
    // The Casts to the types of the model's outputs are added last, so that they are not retyped.
    for (onnx::NodeProto& n : after_) *g_.add_node() = std::move(n);
  }

 private:
  void collect_names(const onnx::GraphProto& g) {
    for (const auto& i : g.input()) names_.insert(i.name());
    for (const auto& t : g.initializer()) names_.insert(t.name());
    for (const auto& n : g.node()) {
      names_.insert(n.output().begin(), n.output().end());
      for (const auto& a : n.attribute()) {
        if (a.has_g()) collect_names(a.g());
      }
    }
  }

  std::string fresh(const std::string& name) {
    std::string out = name;
    while (!names_.insert(out).second) out += "_";
    return out;
  }

  // Renames every use of a value, and with `definition` also its definition by a node or an initializer.
  static void rename(onnx::GraphProto& g, const std::string& from, const std::string& to, bool definition) {
    for (auto& t : *g.mutable_initializer()) {
      if (definition && t.name() == from) t.set_name(to);
    }
    for (auto& n : *g.mutable_node()) {
      for (auto& name : *n.mutable_input()) {
        if (name == from) name = to;
      }
      for (auto& name : *n.mutable_output()) {
        if (definition && name == from) name = to;
      }
      for (auto& a : *n.mutable_attribute()) {
        if (!a.has_g()) continue;
        rename(*a.mutable_g(), from, to, false);
        for (auto& o : *a.mutable_g()->mutable_output()) {  // a branch may return an outer value
          if (o.name() == from) o.set_name(to);
        }
      }
    }
    for (auto& v : *g.mutable_value_info()) {
      if (definition && v.name() == from) v.set_name(to);
    }
  }

  static bool is_low(const onnx::ValueInfoProto& v) {
    return v.type().has_tensor_type() && low(v.type().tensor_type().elem_type());
  }

  void keep_outputs() {
    std::set<std::string> inputs;
    for (const auto& i : g_.input()) inputs.insert(i.name());
    for (const auto& o : g_.output()) {
      if (!is_low(o) || inputs.count(o.name())) continue;
      const std::string inside = fresh(cat(o.name(), "__float"));
      rename(g_, o.name(), inside, true);
      after_.push_back(cast_node(inside, o.name(), o.type().tensor_type().elem_type()));
    }
  }

  void keep_inputs() {
    std::set<std::string> initialized;
    for (const auto& t : g_.initializer()) initialized.insert(t.name());
    std::vector<onnx::NodeProto> casts;
    for (auto& i : *g_.mutable_input()) {
      if (!is_low(i)) continue;
      if (initialized.count(i.name())) {  // before IR version 4 a weight is also an input
        widen(*i.mutable_type());
        continue;
      }
      const std::string inside = fresh(cat(i.name(), "__float"));
      rename(g_, i.name(), inside, false);
      casts.push_back(cast_node(i.name(), inside, T::FLOAT));
    }
    if (casts.empty()) return;
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    nodes.Swap(g_.mutable_node());
    for (onnx::NodeProto& c : casts) *g_.add_node() = std::move(c);
    for (onnx::NodeProto& n : nodes) g_.add_node()->Swap(&n);
  }

  static void widen(onnx::TypeProto& type) {
    if (type.has_tensor_type() && low(type.tensor_type().elem_type()))
      type.mutable_tensor_type()->set_elem_type(T::FLOAT);
    if (type.has_sequence_type()) widen(*type.mutable_sequence_type()->mutable_elem_type());
    if (type.has_optional_type()) widen(*type.mutable_optional_type()->mutable_elem_type());
  }

  static void widen(T& t) {
    if (!low(t.data_type())) return;
    const std::string name = t.name(), doc = t.doc_string();
    t = encode(decode(t, nullptr).cast(DType::f32), name);
    if (!doc.empty()) t.set_doc_string(doc);
  }

  static void retype(onnx::GraphProto& g, bool top) {
    for (auto& t : *g.mutable_initializer()) widen(t);
    for (auto& v : *g.mutable_value_info()) widen(*v.mutable_type());
    if (!top) {
      for (auto& v : *g.mutable_input()) widen(*v.mutable_type());
      for (auto& v : *g.mutable_output()) widen(*v.mutable_type());
    }
    for (auto& n : *g.mutable_node()) {
      for (auto& a : *n.mutable_attribute()) {
        if (names_type(a) && low(static_cast<int>(a.i()))) a.set_i(T::FLOAT);
        if (a.has_t()) widen(*a.mutable_t());
        for (auto& t : *a.mutable_tensors()) widen(t);
        if (a.has_g()) retype(*a.mutable_g(), false);
      }
    }
  }

  onnx::GraphProto& g_;
  std::set<std::string> names_;
  std::vector<onnx::NodeProto> after_;  // Casts to the types of the model's outputs
};

}  // namespace

bool has_16_bit_floats(onnx::ModelProto& model) {
  bool found = false;
  for_each_slot(model, [&](int, Slot s) { found |= s.tensor && low(s.tensor->data_type()); });
  for (const auto& i : model.graph().input())
    found |= i.type().has_tensor_type() && low(i.type().tensor_type().elem_type());
  const auto nodes = [&](const auto& self, const auto& list) -> void {
    for (const auto& n : list) {
      for (const auto& a : n.attribute()) {
        found |= names_type(a) && low(static_cast<int>(a.i()));
        if (a.has_g()) self(self, a.g().node());
      }
    }
  };
  nodes(nodes, model.graph().node());
  for (const auto& f : model.functions()) nodes(nodes, f.node());
  return found;
}

void convert_to_float(onnx::ModelProto& model) {
  if (model.functions_size() > 0) onnx::inliner::InlineLocalFunctions(model);
  FloatConversion(model).run();
}

onnx::NodeProto cast_node(const std::string& from, const std::string& to, int type) {
  onnx::NodeProto n;
  n.set_name(cat(to, "/Cast"));
  n.set_op_type("Cast");
  n.add_input(from);
  n.add_output(to);
  auto& a = *n.add_attribute();
  a.set_name("to");
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(type);
  return n;
}

}  // namespace amp
