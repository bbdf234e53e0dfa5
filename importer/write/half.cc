// The conversion infers types, lists the readers of each value, duplicates small constants, chooses the values stored
// in 16 bits, and then rewrites nodes and inserts Casts. Casts are cached per graph scope.
#include "importer/write/half.h"

#include <onnx/defs/schema.h>
#include <onnx/inliner/inliner.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "importer/read/opsets.h"
#include "importer/read/tensor.h"
#include "importer/write/widen.h"

namespace amp {
namespace {

constexpr int kFloat = onnx::TensorProto::FLOAT;

// True for operators that read an input of any type without a conversion.
bool reads_any(const onnx::NodeProto& n) { return one_of(n.op_type(), {"Shape", "Size", "Cast"}); }

// True for nodes whose output type is given by an attribute.
bool is_fill(const onnx::NodeProto& n) {
  return n.output_size() == 1 && one_of(n.op_type(), {"Constant", "ConstantOfShape"});
}

class HalfConversion {
 public:
  HalfConversion(onnx::ModelProto& model, const HalfOptions& options, std::vector<std::string>& notes)
      : model_(model), options_(options), all_(!options.low), notes_(notes) {
    for (const auto& o : model_.opset_import()) opsets_[standard(o.domain())] = static_cast<int>(o.version());
    half_name_ = options.type.onnx == onnx::TensorProto::FLOAT16 ? "float16" : "bfloat16";
  }

  void run() {
    infer_types();
    onnx::GraphProto& g = *model_.mutable_graph();
    for (const auto& o : g.output()) outputs_.insert(o.name());
    survey(g, true);
    if (split_constants(g)) {
      readers_.clear();
      unknown_.clear();
      wide_.clear();
      survey(g, true);
    }
    if (!unknown_.empty()) {
      fail(Exit::unsupported, "E_EXPORT_FP16",
           cat("operators without a definition cannot be converted to fp16: ", join(unknown_, ", ")), "export in fp32");
    }
    store(g, true);
    casts_.emplace_back();
    rewrite(g, true);
    const auto tell = [&](const char* what, const std::vector<std::string>& names) {
      if (!names.empty()) notes_.push_back(cat(half_name_, ": ", what, ": ", join(names, ", ")));
    };
    tell("masks became half of the lowest number", masked_);
    tell("bounds beyond the type were clamped to it", clamped_);
    tell("constants too small for the type became its smallest number", raised_);
  }

 private:
  struct Reader {
    const onnx::NodeProto* node;
    int input;
  };

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
    std::string out = name;
    while (types_.count(out) || !names_.insert(out).second) out += "_";
    return out;
  }

  const onnx::OpSchema* schema(const onnx::NodeProto& n) const {
    const std::string domain = standard(n.domain());
    const auto version = opsets_.find(domain);
    return version == opsets_.end() ? nullptr : onnx::OpSchemaRegistry::Schema(n.op_type(), version->second, domain);
  }

  template <class Formals>
  bool takes_half(const Formals& formals, int index) const {
    if (formals.empty()) return true;
    const auto& f = formals[std::min(static_cast<size_t>(index), formals.size() - 1)];
    const auto& allowed = f.GetTypes();
    const std::string want = cat("tensor(", half_name_, ")");
    return std::any_of(allowed.begin(), allowed.end(), [&](const auto* t) { return *t == want; });
  }

  // True if the node computes in 16 bits. An Identity that is not in the plan follows its readers.
  bool low(const onnx::NodeProto& n) {
    if (wide_.count(&n) || n.output_size() == 0) return false;
    if (all_) return !options_.wide.count(n.output(0));
    if (options_.low->count(n.output(0))) return schema(n) != nullptr;
    return n.op_type() == "Identity" && n.domain().empty() && only_read_as_half(n.output(0));
  }

  // True if a 16-bit node reads input i in 16 bits. The plan computes BatchNormalization's parameters and statistics in
  // float32. They stay float32 if the operator's definition allows them another type than the input's.
  bool half_input(const onnx::NodeProto& n, const onnx::OpSchema* s, int i) const {
    if (!s || !takes_half(s->inputs(), i)) return false;
    if (all_ || i == 0 || n.op_type() != "BatchNormalization") return true;
    return s->inputs().at(static_cast<size_t>(i)).GetTypeStr() == s->inputs()[0].GetTypeStr();
  }

  bool reads_half(const Reader& r) {
    const onnx::OpSchema* s = schema(*r.node);
    return low(*r.node) && half_input(*r.node, s, r.input);
  }

  bool only_read_as_half(const std::string& name) {
    if (outputs_.count(name)) return false;
    const auto it = readers_.find(name);
    if (it == readers_.end()) return false;
    bool any = false;
    for (const Reader& r : it->second) {
      if (reads_any(*r.node)) continue;
      if (!reads_half(r)) return false;
      any = true;
    }
    return any;
  }

  void survey(const onnx::GraphProto& g, bool top) {
    for (const auto& n : g.node()) {
      if (!schema(n) && all_) unknown_.push_back(cat(printable(n.domain()), "::", printable(n.op_type())));
      for (int i = 0; i < n.input_size(); ++i) {
        if (is_float(n.input(i))) readers_[n.input(i)].push_back({&n, i});
      }
      nan_guard_ |= n.op_type() == "IsNaN";
      for (const auto& a : n.attribute()) {
        if (a.has_g()) survey(a.g(), false);
      }
    }
    for (const auto& t : g.initializer()) keep_divisors_wide(t);
    if (top) return;
    for (const auto& o : g.output()) inner_outputs_.insert(o.name());
  }

  // Keeps nodes in float32 that read t as a divisor or exponent, if t holds values beyond the range of the 16-bit type.
  // Such a constant is not an attention mask, whose values may be replaced by half of the type's largest value.
  void keep_divisors_wide(const onnx::TensorProto& t) {
    const auto it = readers_.find(t.name());
    if (t.data_type() != kFloat || options_.weights.count(t.name()) || it == readers_.end()) return;
    for (const Reader& r : it->second) {
      if (!one_of(r.node->op_type(), {"Div", "Pow", "Mod"})) continue;
      const HostTensor v = decode(t, nullptr);
      const float *b = v.as<float>(), *e = b + v.numel();
      if (std::any_of(b, e, [&](float x) { return std::abs(x) > options_.type.largest(); })) wide_.insert(r.node);
    }
  }

  // Gives the float32 nodes of the main graph a copy of each small constant that 16-bit nodes read too. Returns true if
  // it made a copy.
  bool split_constants(onnx::GraphProto& g) {
    constexpr int64_t kSmall = 64;
    if (model_.ir_version() < 4) return false;  // the copy would have to be a graph input
    std::map<std::string, onnx::TensorProto> constants;
    for (const auto& t : g.initializer()) {
      if (t.data_type() == kFloat && !options_.weights.count(t.name())) constants[t.name()] = t;
    }
    for (const auto& n : g.node()) {
      const bool fill = n.op_type() == "Constant" && n.attribute_size() == 1 && n.attribute(0).name() == "value";
      if (fill && n.attribute(0).t().data_type() == kFloat) constants[n.output(0)] = n.attribute(0).t();
    }
    std::map<std::string, std::string> copies;
    for (auto& n : *g.mutable_node()) {
      const onnx::OpSchema* s = schema(n);
      for (int i = 0; i < n.input_size(); ++i) {
        const std::string name = n.input(i);
        const auto constant = constants.find(name);
        if (constant == constants.end() || reads_any(n) || (low(n) && half_input(n, s, i))) continue;
        const std::vector<Reader>& all = readers_[name];
        if (std::none_of(all.begin(), all.end(), [&](const Reader& r) { return !reads_any(*r.node) && reads_half(r); }))
          continue;
        if (decode(constant->second, nullptr).numel() > kSmall) continue;
        const auto [copy, made] = copies.try_emplace(name);
        if (made) {
          copy->second = fresh(cat(name, "__float"));
          types_[copy->second] = kFloat;
          onnx::TensorProto& t = *g.add_initializer();
          t = constant->second;
          t.set_name(copy->second);
        }
        n.set_input(i, copy->second);
      }
    }
    return !copies.empty();
  }

  bool constant_in_half(const std::string& name) {
    if (!all_) return only_read_as_half(name);
    const auto it = readers_.find(name);
    if (outputs_.count(name) || inner_outputs_.count(name) || it == readers_.end()) return true;
    return std::any_of(it->second.begin(), it->second.end(),
                       [&](const Reader& r) { return reads_any(*r.node) || reads_half(r); });
  }

  // Chooses the values that are stored in 16 bits.
  void store(const onnx::GraphProto& g, bool top) {
    std::set<std::string> initializers;
    for (const auto& t : g.initializer()) {
      initializers.insert(t.name());
      if (t.data_type() == kFloat && constant_in_half(t.name())) half_.insert(t.name());
    }
    for (const auto& i : g.input()) {
      if (!top && all_ && is_float(i.type()) && !initializers.count(i.name())) half_.insert(i.name());
    }
    for (const auto& n : g.node()) {
      const onnx::OpSchema* s = schema(n);
      for (int i = 0; i < n.output_size(); ++i) {
        const std::string& o = n.output(i);
        if (!is_float(o)) continue;
        const bool chosen = is_fill(n) || (all_ && n.op_type() == "Cast");
        // If the opset has float16 but not bfloat16 (ConstantOfShape before 20), the output stays float32.
        if (s && !takes_half(s->outputs(), i)) continue;
        if (chosen ? constant_in_half(o) : low(n) && s) half_.insert(o);
      }
      for (const auto& a : n.attribute()) {
        if (a.has_g()) store(a.g(), false);
      }
    }
    if (!top) return;
    for (const auto& o : g.output()) {
      if (half_.count(o.name())) inner_name_[o.name()] = fresh(cat(o.name(), "__", half_name_));
    }
  }

  std::string renamed(const std::string& name) const {
    const auto it = inner_name_.find(name);
    return it == inner_name_.end() ? name : it->second;
  }

  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
  // Returns the name of the value in the wanted type. Adds a Cast to `out` if necessary; each graph gets at most one
  // Cast per value.
  std::string read(const std::string& name, bool want_half, Nodes& out) {
    const bool have = half_.count(name) != 0;
    if (have == want_half) return renamed(name);
    if (have && outputs_.count(name)) return name;  // an output is cast to float32 after its producer
    for (const auto& scope : casts_) {
      if (const auto it = scope.find(name); it != scope.end()) return it->second;
    }
    const std::string to = fresh(cat(name, want_half ? cat("__", half_name_) : "__float"));
    *out.Add() = cast_node(renamed(name), to, want_half ? options_.type.onnx : kFloat);
    return casts_.back()[name] = to;
  }

  void retype(onnx::ValueInfoProto& v) {
    if (is_float(v.type()) && half_.count(v.name()))
      v.mutable_type()->mutable_tensor_type()->set_elem_type(options_.type.onnx);
    v.set_name(renamed(v.name()));
  }

  void rewrite(onnx::GraphProto& g, bool top) {
    Nodes nodes;
    std::set<std::string> initializers;
    for (auto& t : *g.mutable_initializer()) {
      initializers.insert(t.name());
      const std::string name = t.name();
      if (half_.count(name)) narrow_tensor(t, name);
      t.set_name(renamed(name));
      if (t.name() != name) *nodes.Add() = cast_node(t.name(), name, kFloat);
    }
    for (auto& v : *g.mutable_value_info()) retype(v);
    for (auto& v : *g.mutable_input()) {
      if (!top || initializers.count(v.name())) retype(v);
    }
    for (auto& n : *g.mutable_node()) rewrite(n, nodes);
    if (!top) {
      for (auto& v : *g.mutable_output()) {
        if (!is_float(v.type())) continue;
        v.set_name(read(v.name(), all_, nodes));
        if (all_) v.mutable_type()->mutable_tensor_type()->set_elem_type(options_.type.onnx);
      }
    }
    g.mutable_node()->Swap(&nodes);
  }

  void rewrite(onnx::NodeProto& n, Nodes& out) {
    const onnx::OpSchema* s = schema(n);
    const bool in_half = low(n);
    for (int i = 0; i < n.input_size(); ++i) {
      const std::string name = n.input(i);
      if (!is_float(name) || reads_any(n)) {
        n.set_input(i, renamed(name));
      } else {
        n.set_input(i, read(name, in_half && half_input(n, s, i), out));
      }
    }
    for (auto& a : *n.mutable_attribute()) {
      if (!a.has_g()) continue;
      casts_.emplace_back();
      rewrite(*a.mutable_g(), false);
      casts_.pop_back();
    }
    if (n.output_size() > 0 && half_.count(n.output(0))) {
      retype_attributes(n, options_.type, [&](onnx::TensorProto& t) { narrow_tensor(t, n.output(0)); });
    }
    std::vector<onnx::NodeProto> after;
    for (auto& name : *n.mutable_output()) {
      if (const auto it = inner_name_.find(name); it != inner_name_.end()) {
        after.push_back(cast_node(it->second, name, kFloat));
        name = it->second;
      }
    }
    out.Add()->Swap(&n);
    for (auto& c : after) out.Add()->Swap(&c);
  }

  void narrow_tensor(onnx::TensorProto& t, const std::string& name) {
    ConstantUse use;
    use.weight = options_.weights.count(name) != 0;
    use.nan_guard = nan_guard_;
    const auto it = readers_.find(name);
    use.bound = it != readers_.end() && std::all_of(it->second.begin(), it->second.end(), [](const Reader& r) {
                  return r.input > 0 && one_of(r.node->op_type(), {"Clip", "Max", "Min", "Pad"});
                });
    const Narrowed n = narrow_constant(decode(t, nullptr), options_.type, use, name);
    if (n.masked) masked_.push_back(printable(name));
    if (n.clamped) clamped_.push_back(printable(name));
    if (n.raised) raised_.push_back(printable(name));
    const std::string own_name = t.name(), doc = t.doc_string();
    t = encode(n.value, own_name);
    if (!doc.empty()) t.set_doc_string(doc);
  }

  onnx::ModelProto& model_;
  const HalfOptions& options_;
  const bool all_;
  std::vector<std::string>& notes_;
  std::string half_name_;
  std::map<std::string, int> opsets_;
  std::unordered_map<std::string, int> types_;                    // inferred type of every value
  std::set<std::string> names_;                                   // names that are in use
  std::set<std::string> outputs_;                                 // the model's outputs
  std::set<std::string> inner_outputs_;                           // outputs of branches and loop bodies
  std::unordered_map<std::string, std::vector<Reader>> readers_;  // readers of floating-point values
  std::set<const onnx::NodeProto*> wide_;                         // nodes that cannot be 16-bit
  std::set<std::string> half_;                                    // values stored in 16 bits
  std::map<std::string, std::string> inner_name_;                 // model output -> name of its 16-bit value
  std::vector<std::map<std::string, std::string>> casts_;         // one map per open scope: value -> output of its Cast
  bool nan_guard_ = false;
  std::vector<std::string> unknown_, masked_, clamped_, raised_;
};

}  // namespace

void convert_to_half(onnx::ModelProto& model, const HalfOptions& options, std::vector<std::string>& notes) {
  if (model.functions_size() > 0) onnx::inliner::InlineLocalFunctions(model);
  HalfConversion(model, options, notes).run();
}

}  // namespace amp
