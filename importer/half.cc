#include "importer/half.h"

#include <onnx/defs/schema.h>
#include <onnx/inliner/inliner.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "importer/patch.h"
#include "importer/tensor.h"

namespace amp {
namespace {

constexpr int kFloat = onnx::TensorProto::FLOAT, kHalf = onnx::TensorProto::FLOAT16;

class HalfConversion {
 public:
  HalfConversion(onnx::ModelProto& model, const std::set<std::string>& weights, std::vector<std::string>& notes)
      : model_(model), weights_(weights), notes_(notes) {
    for (const auto& o : model.opset_import())
      opsets_[o.domain() == "ai.onnx" ? "" : o.domain()] = static_cast<int>(o.version());
  }

  void run() {
    infer_types();
    onnx::GraphProto& g = *model_.mutable_graph();
    survey(g);
    if (!unknown_.empty()) {
      fail(Exit::unsupported, "E_EXPORT_FP16",
           cat("operators without a definition cannot be converted to fp16: ", join(unknown_, ", ")), "export in fp32");
    }
    for (const std::string& name : read_as_float_) {
      if (!read_as_half_.count(name) && sources_.count(name)) kept_.insert(name);
    }
    std::set<std::string> initializers, inputs;
    for (const auto& t : g.initializer()) initializers.insert(t.name());
    for (const auto& i : g.input()) {
      if (initializers.count(i.name())) continue;
      inputs.insert(i.name());
      if (is_float(i.type())) inner_name_[i.name()] = fresh(i.name());
    }
    std::vector<std::string> float_outputs;
    for (const auto& o : g.output()) {
      if (!is_float(o.type()) || inputs.count(o.name())) continue;
      inner_name_[o.name()] = fresh(o.name());
      float_outputs.push_back(o.name());
    }
    rewrite(g, true);
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    for (const auto& i : g.input()) {
      if (inputs.count(i.name()) && is_float(i.type())) *nodes.Add() = cast(i.name(), inner_name_[i.name()], kHalf);
    }
    for (auto& n : *g.mutable_node()) nodes.Add()->Swap(&n);
    for (const std::string& o : float_outputs) *nodes.Add() = cast(inner_name_[o], o, kFloat);
    g.mutable_node()->Swap(&nodes);
    if (!clamped_.empty())
      notes_.push_back(cat("fp16: constants beyond 65504 were clamped to it: ", join(clamped_, ", ")));
    if (!raised_.empty())
      notes_.push_back(cat("fp16: constants too small for fp16 became 6e-8: ", join(raised_, ", ")));
  }

 private:
  static bool is_float(const onnx::TypeProto& t) {
    return t.has_tensor_type() && t.tensor_type().elem_type() == kFloat;
  }
  bool is_float(const std::string& name) const {
    const auto it = types_.find(name);
    return it != types_.end() && it->second == kFloat;
  }

  void infer_types() {
    onnx::ModelProto copy = model_;
    try {
      onnx::shape_inference::InferShapes(copy);
    } catch (const std::exception& e) {
      fail(Exit::unsupported, "E_EXPORT_FP16", cat("the model's types cannot be inferred: ", printable(e.what())),
           "export in fp32");
    }
    collect(copy.graph());
  }

  void collect(const onnx::GraphProto& g) {
    const auto add = [&](const auto& infos) {
      for (const auto& v : infos) {
        if (v.type().has_tensor_type()) types_[v.name()] = v.type().tensor_type().elem_type();
      }
    };
    add(g.value_info());
    add(g.input());
    add(g.output());
    for (const auto& t : g.initializer()) types_[t.name()] = t.data_type();
    for (const auto& n : g.node()) {
      for (const auto& a : n.attribute()) {
        if (a.has_g()) collect(a.g());
      }
      for (const std::string& o : n.output()) names_.insert(o);
    }
  }

  std::string fresh(const std::string& name) {
    std::string out = name + "__fp16";
    while (types_.count(out) || !names_.insert(out).second) out += "_";
    return out;
  }

  const onnx::OpSchema* schema(const onnx::NodeProto& n) const {
    const std::string domain = n.domain() == "ai.onnx" ? "" : n.domain();
    const auto version = opsets_.find(domain);
    return version == opsets_.end() ? nullptr : onnx::OpSchemaRegistry::Schema(n.op_type(), version->second, domain);
  }

  template <class Formals>
  static bool takes_half(const Formals& formals, int index) {
    if (formals.empty()) return true;
    const auto& f = formals[std::min(static_cast<size_t>(index), formals.size() - 1)];
    const auto& allowed = f.GetTypes();
    return std::any_of(allowed.begin(), allowed.end(), [](const auto* t) { return *t == "tensor(float16)"; });
  }

  // Which tensors are read as float32 and which as float16.
  void survey(const onnx::GraphProto& g) {
    for (const auto& t : g.initializer()) sources_.insert(t.name());
    for (const auto& n : g.node()) {
      if (n.output_size() == 1 &&
          (n.op_type() == "Constant" || n.op_type() == "ConstantOfShape" || n.op_type() == "Cast")) {
        sources_.insert(n.output(0));
      }
      const onnx::OpSchema* s = schema(n);
      if (!s && n.op_type() != "Constant") {
        unknown_.push_back(cat(printable(n.domain()), "::", printable(n.op_type())));
        continue;
      }
      for (int i = 0; i < n.input_size(); ++i) {
        if (is_float(n.input(i))) (takes_half(s->inputs(), i) ? read_as_half_ : read_as_float_).insert(n.input(i));
      }
      for (const auto& a : n.attribute()) {
        if (a.has_g()) survey(a.g());
      }
    }
    for (const auto& o : g.output()) read_as_half_.insert(o.name());
  }

  static onnx::NodeProto cast(const std::string& from, const std::string& to, int type) {
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

  std::string renamed(const std::string& name) const {
    const auto it = inner_name_.find(name);
    return it == inner_name_.end() ? name : it->second;
  }

  void rewrite(onnx::GraphProto& g, bool top) {
    for (auto& t : *g.mutable_initializer()) {
      if (t.data_type() == kFloat && !kept_.count(t.name())) narrow_tensor(t, t.name());
      t.set_name(renamed(t.name()));
    }
    std::set<std::string> initializers;
    for (const auto& t : g.initializer()) initializers.insert(t.name());
    for (auto& v : *g.mutable_value_info()) {
      if (is_float(v.type()) && !kept_.count(v.name())) v.mutable_type()->mutable_tensor_type()->set_elem_type(kHalf);
      v.set_name(renamed(v.name()));
    }
    for (auto& v : *g.mutable_input()) {
      const bool initialized = initializers.count(renamed(v.name())) != 0;
      if (is_float(v.type()) && (!top || initialized) && !kept_.count(v.name())) {
        v.mutable_type()->mutable_tensor_type()->set_elem_type(kHalf);
      }
      if (initialized) v.set_name(renamed(v.name()));
    }
    if (!top) {
      for (auto& v : *g.mutable_output()) {
        if (is_float(v.type())) v.mutable_type()->mutable_tensor_type()->set_elem_type(kHalf);
        v.set_name(renamed(v.name()));
      }
    }
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    for (auto& n : *g.mutable_node()) rewrite(n, nodes);
    g.mutable_node()->Swap(&nodes);
  }

  void rewrite(onnx::NodeProto& n, google::protobuf::RepeatedPtrField<onnx::NodeProto>& out) {
    const onnx::OpSchema* s = schema(n);
    for (int i = 0; i < n.input_size(); ++i) {
      const std::string name = n.input(i);
      n.set_input(i, renamed(name));
      if (!is_float(name) || kept_.count(name) || takes_half(s->inputs(), i)) continue;
      const std::string wide = fresh(cat(name, "__wide"));
      *out.Add() = cast(renamed(name), wide, kFloat);
      n.set_input(i, wide);
    }
    for (auto& a : *n.mutable_attribute()) {
      if (a.has_g()) rewrite(*a.mutable_g(), false);
    }
    retype_attributes(n);
    std::vector<onnx::NodeProto> after;
    for (int i = 0; i < n.output_size(); ++i) {
      const std::string name = n.output(i);
      n.set_output(i, renamed(name));
      if (!is_float(name) || kept_.count(name) || (s && takes_half(s->outputs(), i))) continue;
      const std::string wide = fresh(cat(name, "__wide"));
      n.set_output(i, wide);
      after.push_back(cast(wide, renamed(name), kHalf));
    }
    out.Add()->Swap(&n);
    for (auto& c : after) out.Add()->Swap(&c);
  }

  // Attributes that fix an output's type.
  void retype_attributes(onnx::NodeProto& n) {
    const std::string& op = n.op_type();
    if (n.output_size() == 0 || !is_float(n.output(0)) || kept_.count(n.output(0))) return;
    if (op == "Constant") {
      for (auto& a : *n.mutable_attribute()) {
        if (a.name() == "value_float" || a.name() == "value_floats") {
          HostTensor t = a.name() == "value_float"
                             ? HostTensor::scalar<float>(a.f())
                             : HostTensor::of<float>({a.floats_size()}, {a.floats().begin(), a.floats().end()});
          a.clear_f();
          a.clear_floats();
          a.set_name("value");
          a.set_type(onnx::AttributeProto::TENSOR);
          *a.mutable_t() = encode(t, "");
        }
        if (a.has_t() && a.t().data_type() == kFloat) narrow_tensor(*a.mutable_t(), n.output(0));
      }
    } else if (op == "ConstantOfShape") {
      auto it = std::find_if(n.mutable_attribute()->begin(), n.mutable_attribute()->end(),
                             [](const auto& a) { return a.name() == "value"; });
      if (it == n.mutable_attribute()->end()) {  // 0 of float32 by default
        auto& a = *n.add_attribute();
        a.set_name("value");
        a.set_type(onnx::AttributeProto::TENSOR);
        *a.mutable_t() = encode(HostTensor::zeros(DType::f16, {1}), "");
      } else if (it->t().data_type() == kFloat) {
        narrow_tensor(*it->mutable_t(), n.output(0));
      }
    } else if (op == "Cast") {
      for (auto& a : *n.mutable_attribute()) {
        if (a.name() == "to") a.set_i(kHalf);
      }
    } else if (op == "RandomNormal" || op == "RandomUniform" || op == "EyeLike" || op == "RandomNormalLike" ||
               op == "RandomUniformLike" || op == "Bernoulli" || op == "HannWindow" || op == "HammingWindow" ||
               op == "BlackmanWindow" || op == "DequantizeLinear") {
      const std::string key = op.find("Window") != std::string::npos ? "output_datatype"
                              : op == "DequantizeLinear"             ? "output_dtype"
                                                                     : "dtype";
      bool found = false;
      for (auto& a : *n.mutable_attribute()) {
        if (a.name() != key) continue;
        found = true;
        if (a.i() == kFloat) a.set_i(kHalf);
      }
      if (found || op.find("Like") != std::string::npos || op == "Bernoulli" || op == "DequantizeLinear") return;
      auto& a = *n.add_attribute();
      a.set_name(key);
      a.set_type(onnx::AttributeProto::INT);
      a.set_i(kHalf);
    }
  }

  void narrow_tensor(onnx::TensorProto& t, const std::string& name) {
    const HostTensor wide = decode(t, nullptr);
    HostTensor out;
    if (weights_.count(name)) {
      out = narrow(wide, DType::f16, name);
    } else {
      HostTensor fitted = HostTensor::empty(DType::f32, wide.dims());
      float* p = fitted.as_mutable<float>();
      bool clamped = false, raised = false;
      for (int64_t i = 0; i < wide.numel(); ++i) {
        const float x = wide.as<float>()[i];
        p[i] = x;
        if (std::isfinite(x) && std::fabs(x) > 65504.f) {
          p[i] = std::copysign(65504.f, x);
          clamped = true;
        } else if (wide.numel() == 1 && x != 0 && std::fabs(x) < 0x1p-24f) {
          p[i] = std::copysign(0x1p-24f, x);
          raised = true;
        }
      }
      if (clamped) clamped_.push_back(printable(name));
      if (raised) raised_.push_back(printable(name));
      out = fitted.cast(DType::f16);
    }
    const std::string own_name = t.name(), doc = t.doc_string();
    t = encode(out, own_name);
    if (!doc.empty()) t.set_doc_string(doc);
  }

  onnx::ModelProto& model_;
  const std::set<std::string>& weights_;
  std::vector<std::string>& notes_;
  std::map<std::string, int> opsets_;
  std::unordered_map<std::string, int> types_;  // of every value, as inferred
  std::set<std::string> names_;                 // taken
  std::set<std::string> read_as_float_, read_as_half_;
  std::set<std::string> sources_;                  // initializers and outputs whose type is an attribute
  std::set<std::string> kept_;                     // those of them that stay float32
  std::map<std::string, std::string> inner_name_;  // graph input or output -> its float16 twin inside
  std::vector<std::string> unknown_, clamped_, raised_;
};

}  // namespace

void convert_to_half(onnx::ModelProto& model, const std::set<std::string>& weights, std::vector<std::string>& notes) {
  if (model.functions_size() > 0) onnx::inliner::InlineLocalFunctions(model);
  HalfConversion(model, weights, notes).run();
}

}  // namespace amp
