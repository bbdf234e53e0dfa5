// Prepends the fitted preprocessing of a table to a model. The model's inputs are renamed, so that a column may have an
// input's name. Numbers are computed in double and cast to float last, as in training. Needs opset 9 (Where, IsNaN) and
// ai.onnx.ml 2 (LabelEncoder with separate keys and values).
#include "importer/surgery/raw_rows.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/read/opsets.h"
#include "importer/write/prepend.h"

namespace amp {

namespace {

using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;

void rename_uses(GraphProto& g, const std::string& from, const std::string& to) {
  for (NodeProto& n : *g.mutable_node()) {
    for (std::string& name : *n.mutable_input()) {
      if (name == from) name = to;
    }
    for (onnx::AttributeProto& a : *n.mutable_attribute()) {
      if (a.has_g()) rename_uses(*a.mutable_g(), from, to);
      for (GraphProto& inner : *a.mutable_graphs()) rename_uses(inner, from, to);
    }
  }
}

int64_t version_of(const onnx::ModelProto& model, const std::string& domain) {
  const Opsets opsets = opsets_of(model.opset_import());
  const auto found = opsets.find(standard(domain));
  return found == opsets.end() ? 0 : found->second;
}

class Writer {
 public:
  Writer(onnx::ModelProto& model, const RawRows& rows) : g_(*model.mutable_graph()), rows_(rows) {
    for (const auto& v : g_.input()) taken_.insert(v.name());
    for (const auto& v : g_.initializer()) taken_.insert(v.name());
    for (const auto& n : g_.node()) taken_.insert(n.output().begin(), n.output().end());
  }

  void run() {
    for (const RawInput& i : rows_.inputs) free_input(i.name);
    google::protobuf::RepeatedPtrField<NodeProto> own;
    own.Swap(g_.mutable_node());
    for (const RawColumn& c : rows_.columns) add_column(c);
    for (const RawInput& i : rows_.inputs) add_input(i);
    for (NodeProto& n : own) g_.add_node()->Swap(&n);
    if (rows_.form != RawOutput::plain) bring_back();
  }

 private:
  struct Made {
    std::string value, missing;  // value: codes as int64, or numbers as float; missing: indicators as float
  };

  std::string fresh(std::string name) {
    while (!taken_.insert(name).second) name += "_";
    return name;
  }

  // Removes the model's input from the graph's inputs, so that a column can have its name.
  void free_input(const std::string& name) {
    auto& inputs = *g_.mutable_input();
    const auto at = std::find_if(inputs.begin(), inputs.end(), [&](const auto& v) { return v.name() == name; });
    check(at != inputs.end(), "raw rows: the model has no such input");
    types_[name] = at->type().tensor_type().elem_type();
    flat_[name] = at->type().tensor_type().shape().dim_size() == 1;
    inputs.erase(at);
    taken_.erase(name);
    fed_[name] = fresh(name + "_features");
    rename_uses(g_, name, fed_[name]);
  }

  std::string node(const std::string& op, const std::vector<std::string>& inputs, const std::string& stem,
                   const std::function<void(NodeProto&)>& more = {}) {
    NodeProto& n = *g_.add_node();
    n.set_op_type(op);
    for (const std::string& i : inputs) n.add_input(i);
    n.add_output(fresh(stem));
    n.set_name(n.output(0));
    if (more) more(n);
    return n.output(0);
  }

  static void attribute(NodeProto& n, const std::string& name, int64_t value) {
    onnx::AttributeProto& a = *n.add_attribute();
    a.set_name(name);
    a.set_type(onnx::AttributeProto::INT);
    a.set_i(value);
  }

  std::string cast(const std::string& value, int type, const std::string& stem) {
    return node("Cast", {value}, stem, [&](NodeProto& n) { attribute(n, "to", type); });
  }

  TensorProto& constant(const std::string& name, int type) {
    TensorProto& t = *g_.add_initializer();
    t.set_name(fresh(name));
    t.set_data_type(type);
    return t;
  }
  std::string number(const std::string& name, double value) {
    TensorProto& t = constant(name, TensorProto::DOUBLE);
    t.add_double_data(value);
    return t.name();
  }
  std::string single(const std::string& name, double value) {
    TensorProto& t = constant(name, TensorProto::FLOAT);
    t.add_float_data(static_cast<float>(value));
    return t.name();
  }

  void add_column(const RawColumn& c) {
    onnx::ValueInfoProto& input = *g_.add_input();
    input.set_name(fresh(c.name));
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(c.category ? TensorProto::STRING : TensorProto::DOUBLE);
    type.mutable_shape()->add_dim()->set_dim_param("rows");
    type.mutable_shape()->add_dim()->set_dim_value(1);
    const std::string in = input.name();
    if (c.category) {
      made_.push_back({encode(c, in), {}});
      return;
    }
    const std::string missing = node("IsNaN", {in}, in + "_missing");
    std::string x = node("Where", {missing, number(in + "_fill", c.fill), in}, in + "_filled");
    x = node("Sub", {x, number(in + "_mean", c.mean)}, in + "_centred");
    x = node("Div", {x, number(in + "_scale", c.scale)}, in + "_scaled");
    made_.push_back({cast(x, TensorProto::FLOAT, in + "_number"), cast(missing, TensorProto::FLOAT, in + "_na")});
  }

  std::string encode(const RawColumn& c, const std::string& in) {
    return node("LabelEncoder", {in}, in + "_code", [&](NodeProto& n) {
      n.set_domain("ai.onnx.ml");
      onnx::AttributeProto &keys = *n.add_attribute(), &codes = *n.add_attribute();
      keys.set_name("keys_strings");
      keys.set_type(onnx::AttributeProto::STRINGS);
      codes.set_name("values_int64s");
      codes.set_type(onnx::AttributeProto::INTS);
      keys.add_strings("");  // the text of a missing value
      codes.add_ints(0);
      for (size_t i = 0; i < c.values.size(); ++i) {
        keys.add_strings(c.values[i]);
        codes.add_ints(static_cast<int64_t>(i) + 1);
      }
      attribute(n, "default_int64", 0);
    });
  }

  void add_input(const RawInput& i) {
    const std::string& name = fed_.at(i.name);
    const int type = types_.at(i.name);
    std::vector<std::string> parts;
    for (const RawInput::Feature& f : i.features) {
      const Made& m = made_.at(f.column);
      const bool code = rows_.columns[f.column].category;
      const std::string& value = f.indicator ? m.missing : m.value;
      const int has = code ? TensorProto::INT64 : TensorProto::FLOAT;
      parts.push_back(has == type ? value : cast(value, type, value + "_cast"));
    }
    NodeProto& n = *g_.add_node();
    n.set_name(name);
    n.add_output(name);
    if (flat_.at(i.name)) {
      TensorProto& shape = constant(name + "_shape", TensorProto::INT64);
      shape.add_dims(1);
      shape.add_int64_data(-1);
      n.set_op_type("Reshape");
      n.add_input(parts.at(0));
      n.add_input(shape.name());
      return;
    }
    n.set_op_type("Concat");
    for (const std::string& p : parts) n.add_input(p);
    attribute(n, "axis", 1);
  }

  // Appends the inverse of the target's transformation. The output keeps its name, and the model's result before the
  // inverse gets a new name.
  void bring_back() {
    const std::string inner = fresh(rows_.output + "_transformed");
    for (NodeProto& n : *g_.mutable_node()) {
      for (std::string& o : *n.mutable_output()) {
        if (o == rows_.output) o = inner;
      }
    }
    rename_uses(g_, rows_.output, inner);
    std::string x = inner;
    if (rows_.form == RawOutput::affine) {
      x = node("Mul", {x, single("target_scale", rows_.scale)}, "target_scaled");
      node("Add", {x, single("target_mean", rows_.mean)}, "target");
    } else {
      const std::string e = node("Exp", {x}, "target_exp");
      if (rows_.form == RawOutput::expm1) node("Sub", {e, single("target_one", 1)}, "target");
    }
    g_.mutable_node()->rbegin()->set_output(0, rows_.output);
  }

  GraphProto& g_;
  const RawRows& rows_;
  std::set<std::string> taken_;
  std::map<std::string, int> types_;
  std::map<std::string, bool> flat_;
  std::map<std::string, std::string> fed_;  // input of the model -> name of the value that replaces it
  std::vector<Made> made_;                  // indexed by column
};

}  // namespace

void prepend_raw_rows(onnx::ModelProto& model, const RawRows& rows) {
  // The first opset of Where and IsNaN, and the first version of LabelEncoder with separate keys and values.
  constexpr int64_t kWhere = 9, kEncoder = 2;
  if (version_of(model, "") < kWhere)
    fail(Exit::unsupported, "E_RAW_ROWS", cat("the model is of opset ", version_of(model, ""), ", raw rows need 9"),
         "export it from its framework with a newer opset");
  const int64_t ml = version_of(model, "ai.onnx.ml");
  if (ml == 0) {
    auto& o = *model.add_opset_import();
    o.set_domain("ai.onnx.ml");
    o.set_version(kEncoder);
  } else if (ml < kEncoder) {
    fail(Exit::unsupported, "E_RAW_ROWS", cat("the model uses ai.onnx.ml ", ml, ", raw rows need 2"));
  }
  Writer(model, rows).run();
}

}  // namespace amp
