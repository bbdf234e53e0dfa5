// Implements SourceBuilder's walk over the file's nodes and its creation of values. Function calls and constant Ifs are
// inlined by inline.cc, operators without a lowering by functions.cc. Names and attributes are in builder_names.cc.
// Unsupported element types are collected during the walk and reported in one error at the end.
#include "importer/read/builder.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "graph/bind.h"
#include "graph/limits.h"
#include "importer/quantized/four_bits.h"
#include "importer/read/names.h"
#include "importer/read/newer_onnx.h"
#include "importer/read/order.h"
#include "importer/read/schema.h"
#include "importer/read/tensor.h"

namespace amp {
namespace {

constexpr int kMaxFunctions = 10000;

void set_type(SourceValue& v, const onnx::TypeProto& type) {
  if (!type.has_tensor_type()) return;
  const auto& t = type.tensor_type();
  if (const auto d = dtype_of(t.elem_type())) {
    v.dtype = *d;
    v.dtype_known = true;
  }
  if (!t.has_shape()) return;
  v.rank_known = true;
  v.dims.clear();
  for (const auto& d : t.shape().dim()) {
    Dim dim;
    if (d.has_dim_value() && d.dim_value() >= 0) dim.value = d.dim_value();
    if (d.has_dim_param()) dim.symbol = d.dim_param();
    v.dims.push_back(std::move(dim));
  }
}

}  // namespace

SourceBuilder::SourceBuilder(const ModelDoc& doc) : doc_(doc), model_(*doc.proto) {}

Built SourceBuilder::build() {
  for_each_slot(*doc_.proto, [&](int number, Slot s) {
    slots_[s.tensor ? static_cast<const void*>(s.tensor) : s.attribute] = number;
  });
  top_level();
  if (!unsupported_.empty()) {
    std::vector<std::string> lines;
    for (const auto& [name, why] : unsupported_) lines.push_back(cat(name, " (", why, ")"));
    fail(Exit::unsupported, "E_TYPE", cat("values of types that are not supported: ", join(lines, "; ")));
  }
  require_dequantized(out_.graph, out_.four_bits);
  return std::move(out_);
}

void SourceBuilder::top_level() {
  const onnx::GraphProto& g = model_.graph();
  opsets_ = opsets_of(model_.opset_import());
  if (const std::string note = newer_onnx_note(model_); !note.empty()) out_.notes.push_back(note);
  // Report operator sets that are imported with several versions.
  for (const auto& o : model_.opset_import()) {
    if (const int64_t used = opsets_.at(standard(o.domain())); o.version() != used)
      out_.notes.push_back(cat("operator set '", printable(standard(o.domain())), "' is imported as version ",
                               o.version(), ", too: the last entry, version ", used, ", is used as onnxruntime does"));
  }
  if (model_.functions_size() > kMaxFunctions) {
    fail(Exit::model, "E_FUNC_LIMIT", cat("the model has more than ", kMaxFunctions, " local functions"));
  }
  for (const auto& f : model_.functions()) {
    if (!functions_.emplace(std::tuple(standard(f.domain()), f.name(), f.overload()), &f).second) {
      fail(Exit::model, "E_SSA", cat("local function '", printable(f.name()), "' is defined twice"));
    }
  }
  // Reserve the names of the top-level graph, so that inlined nodes get other names.
  for (const auto& i : g.input()) reserved_.insert(i.name());
  for (const auto& i : g.initializer()) reserved_.insert(i.name());
  for (const auto& n : g.node()) {
    reserved_.insert(n.output().begin(), n.output().end());
    reserved_nodes_.insert(n.name());
  }
  for (const auto& v : g.value_info()) hints_.emplace(v.name(), &v.type());
  for (const auto& v : g.output()) hints_[v.name()] = &v.type();

  out_.graph.name = g.name();
  out_.graph.opsets = opsets_;
  top_.graph = &out_.graph;
  top_.opsets = &opsets_;
  // Before IR version 4 initializers are also listed as inputs; these are not fed.
  std::set<std::string> initialized;
  for (const auto& t : g.initializer()) initialized.insert(t.name());
  for (const auto& t : g.sparse_initializer()) initialized.insert(t.values().name());
  for (const auto& i : g.input()) {
    if (!initialized.count(i.name())) add_input(top_, i);
  }
  add_initializers(top_, g);
  bool sorted = true;
  topological_order(g.node(), &sorted);
  if (!sorted) out_.notes.push_back("the file's nodes were not in topological order; they were sorted");
  add_nodes(top_, g.node());
  for (const auto& o : g.output()) {
    const int v = lookup(top_, o.name());
    if (v < 0) fail(Exit::model, "E_DANGLING", cat("graph output '", printable(o.name()), "' is produced by no node"));
    out_.graph.outputs.push_back(v);
  }
  std::set<std::string> used;
  for (const SourceNode& n : out_.graph.nodes) used.insert(n.domain);
  for (const auto& [domain, version] : opsets_) {
    if (!used.count(domain))
      out_.notes.push_back(cat("operator set '", printable(domain), "' is imported but not used"));
  }
}

void SourceBuilder::add_input(Scope& scope, const onnx::ValueInfoProto& info) {
  check_name(info.name(), "graph input");
  if (scope.values.count(info.name())) {
    fail(Exit::model, "E_DUP_INIT", cat("two graph inputs are called '", printable(info.name()), "'"));
  }
  SourceValue v;
  v.name = scope.graph == top_.graph ? info.name() : scope.graph->fresh_name(info.name());
  v.kind = SourceKind::input;
  set_type(v, info.type());
  if (scope.graph == top_.graph && !v.dtype_known) {
    unsupported_[cat("graph input '", printable(info.name()), "'")] =
        info.type().has_tensor_type() ? onnx_type_name(info.type().tensor_type().elem_type()) : "no tensor";
  }
  const int index = scope.graph->add_value(std::move(v));
  if (scope.graph == top_.graph) {
    out_.slot_of.push_back(-1);
    out_.visible.push_back(1);
  }
  scope.graph->inputs.push_back(index);
  scope.values[info.name()] = index;
}

HostTensor SourceBuilder::payload(const onnx::TensorProto& t, const std::string& what) {
  const bool packed = has_four_bits(t.data_type());
  if (!packed && !dtype_of(t.data_type())) {
    if (t.data_type() <= onnx::TensorProto::UNDEFINED || t.data_type() > kNewestDataType) {
      fail(Exit::model, "E_TENSOR_TYPE", cat(what, " has element type ", t.data_type()));
    }
    if (t.data_type() == onnx::TensorProto::STRING) {
      out_.notes.push_back(cat(what, " holds strings: what is computed from it is not available"));
    } else {
      unsupported_[what] = onnx_type_name(t.data_type());
    }
    return {};
  }
  try {
    HostTensor external;
    if (const auto slot = slots_.find(&t); slot != slots_.end()) {
      if (const auto it = doc_.external.find(slot->second); it != doc_.external.end()) external = it->second;
    }
    if (!packed) return external ? external : decode(t, doc_.proto);
    HostTensor unpacked = unpack(t, external);
    if (unpacked.numel() > 0) out_.four_bits.insert(unpacked.data());
    return unpacked;
  } catch (Error& e) {
    e.at(cat("in ", what));
    throw;
  }
}

int SourceBuilder::add_constant(Scope& scope, const std::string& name, HostTensor data, const void* place) {
  check_name(name, "tensor");
  if (scope.values.count(name)) {
    fail(Exit::model, "E_DUP_INIT", cat("two values are called '", printable(name), "'"));
  }
  const bool main = scope.graph == top_.graph;
  const auto slot = slots_.find(place);
  if (main && slot != slots_.end()) {
    // If a function is called twice, a constant of the function remains one weight.
    if (const auto it = by_slot_.find(slot->second); it != by_slot_.end()) return scope.values[name] = it->second;
  }
  if (!main && slot != slots_.end() && data && is_float(data.dtype()) && scope.standard.empty())
    return hoist(scope, name, std::move(data), slot->second);
  SourceValue v;
  v.name = value_name(scope, name, true);
  v.kind = SourceKind::constant;
  v.dtype_known = static_cast<bool>(data);
  v.dtype = data.dtype();
  v.rank_known = static_cast<bool>(data);
  for (const int64_t d : data.dims()) v.dims.push_back({d, ""});
  v.data = std::move(data);
  if (!scope.standard.empty()) v.reason = cat("constant: part of the definition of ", printable(scope.standard));
  const int index = scope.graph->add_value(std::move(v));
  if (main) {
    out_.slot_of.push_back(slot == slots_.end() ? -1 : slot->second);
    out_.visible.push_back(&scope == &top_);
    if (slot != slots_.end()) by_slot_[slot->second] = index;
  }
  return scope.values[name] = index;
}

int SourceBuilder::hoist(Scope& scope, const std::string& name, HostTensor data, int slot) {
  const auto known = by_slot_.find(slot);
  if (known == by_slot_.end()) {
    const auto taken = [&](const std::string& n) {
      return out_.graph.find(n) >= 0 || reserved_.count(n) ||
             std::any_of(bodies_.begin(), bodies_.end(), [&](const SourceGraph* b) { return b->find(n) >= 0; });
    };
    SourceValue v;
    v.name = name;
    for (int i = 1; taken(v.name); ++i) v.name = cat(name, "_", i);
    v.kind = SourceKind::constant;
    v.dtype = data.dtype();
    v.dtype_known = v.rank_known = true;
    for (const int64_t d : data.dims()) v.dims.push_back({d, ""});
    v.data = std::move(data);
    by_slot_[slot] = out_.graph.add_value(std::move(v));
    out_.slot_of.push_back(slot);
    out_.visible.push_back(0);
  }
  const SourceValue source = out_.graph.values[static_cast<size_t>(by_slot_.at(slot))];
  for (SourceGraph* body : bodies_) {
    if (body->find(source.name) >= 0) continue;
    SourceValue captured;
    captured.name = source.name;
    captured.dtype = source.dtype;
    captured.dtype_known = captured.rank_known = true;
    captured.dims = source.dims;
    body->add_value(std::move(captured));
  }
  return scope.values[name] = scope.graph->find(source.name);
}

void SourceBuilder::add_initializers(Scope& scope, const onnx::GraphProto& graph) {
  for (const auto& t : graph.initializer()) {
    add_constant(scope, t.name(), payload(t, cat("initializer '", printable(t.name()), "'")), &t);
  }
  for (const auto& t : graph.sparse_initializer()) {
    unsupported_[cat("initializer '", printable(t.values().name()), "'")] = "sparse";
    add_constant(scope, t.values().name(), {}, nullptr);
  }
}

void SourceBuilder::add_nodes(Scope& scope, const NodeProtos& nodes) {
  for (const int i : topological_order(nodes)) {
    try {
      add_node(scope, nodes[i]);
    } catch (Error& e) {
      if (e.where().size() < 3) e.at(cat("at ", describe(nodes[i], i)));
      throw;
    }
  }
}

void SourceBuilder::add_node(Scope& scope, const onnx::NodeProto& node) {
  if (++nodes_ > limits().graph_nodes) refuse_nodes("functions are inlined");
  AttrTable attrs = resolve(scope, node);
  const auto f = functions_.find({standard(node.domain()), node.op_type(), node.overload()});
  if (f != functions_.end()) return add_call(scope, node, *f->second, attrs, false);
  check_schema(node, attrs, *scope.opsets);
  if (standard(node.domain()).empty()) {
    if (node.op_type() == "Constant" && node.output_size() == 1) return add_constant_node(scope, node, attrs);
    if (node.op_type() == "If" && add_branch(scope, node, attrs)) return;
  }
  if (const auto* body = standard_body(scope, node, attrs)) return add_call(scope, node, *body, attrs, true);
  emit(scope, node, attrs);
}

void SourceBuilder::add_constant_node(Scope& scope, const onnx::NodeProto& node, const AttrTable& attrs) {
  const std::string& name = node.output(0);
  const std::string what = cat("Constant '", printable(name), "'");
  if (attrs.size() != 1) fail(Exit::model, "E_ATTR", cat(what, " needs exactly one attribute, it has ", attrs.size()));
  const auto& [key, a] = *attrs.begin();
  if (key == "value" && a->has_t()) {
    add_constant(scope, name, payload(a->t(), what), &a->t());
  } else if (key == "value_float") {
    add_constant(scope, name, HostTensor::scalar<float>(a->f()), a);
  } else if (key == "value_floats") {
    add_constant(scope, name, HostTensor::of<float>({a->floats_size()}, {a->floats().begin(), a->floats().end()}), a);
  } else if (key == "value_int") {
    add_constant(scope, name, HostTensor::scalar<int64_t>(a->i()), nullptr);
  } else if (key == "value_ints") {
    add_constant(scope, name, HostTensor::of<int64_t>({a->ints_size()}, {a->ints().begin(), a->ints().end()}), nullptr);
  } else if (key == "value_string" || key == "value_strings" || key == "sparse_value") {
    if (key == "sparse_value") unsupported_[what] = "sparse";
    add_constant(scope, name, {}, nullptr);
  } else {
    fail(Exit::model, "E_ATTR", cat(what, " has no value but attribute '", printable(key), "'"));
  }
}

void SourceBuilder::emit(Scope& scope, const onnx::NodeProto& node, const AttrTable& attrs) {
  SourceNode n;
  n.name = node_name(scope, node, static_cast<int>(scope.graph->nodes.size()));
  n.op = node.op_type();
  n.domain = standard(node.domain());
  const auto version = scope.opsets->find(n.domain);
  n.version = version == scope.opsets->end() ? 1 : version->second;
  for (const std::string& i : node.input()) n.inputs.push_back(i.empty() ? -1 : need(scope, i));
  n.attrs = convert(scope, attrs);
  // Captured values become inputs, after the declared ones, so that code that follows inputs covers them.
  std::vector<std::string> captured = captures(n);
  std::sort(captured.begin(), captured.end());
  captured.erase(std::unique(captured.begin(), captured.end()), captured.end());
  for (const std::string& c : captured) n.inputs.push_back(scope.graph->find(c));
  if (!captured.empty()) n.attrs.set(kCaptures, captured);
  for (const std::string& o : node.output()) n.outputs.push_back(o.empty() ? -1 : declare(scope, o));
  scope.graph->add_node(std::move(n));
  if (scope.graph == top_.graph) out_.scopes.push_back(module_of(scope, node));
}

int SourceBuilder::lookup(Scope& scope, const std::string& name) {
  if (const auto it = scope.values.find(name); it != scope.values.end()) return it->second;
  if (!scope.outer) return kUnknown;
  const int v = lookup(*scope.outer, name);
  if (v < 0 || scope.outer->graph == scope.graph) return v;
  const SourceValue& source = scope.outer->graph->values[static_cast<size_t>(v)];
  if (const int known = scope.graph->find(source.name); known >= 0) return known;
  SourceValue captured;
  captured.name = source.name;
  captured.dtype = source.dtype;
  captured.dtype_known = source.dtype_known;
  captured.rank_known = source.rank_known;
  captured.dims = source.dims;
  return scope.graph->add_value(std::move(captured));
}

int SourceBuilder::need(Scope& scope, const std::string& name) {
  const int v = lookup(scope, name);
  if (v == kUnknown) {
    fail(Exit::model, "E_DANGLING",
         cat("input '", printable(name), "' is produced by no node and is no input or initializer"));
  }
  return v;
}

int SourceBuilder::declare(Scope& scope, const std::string& name) {
  if (scope.values.count(name)) {
    fail(Exit::model, "E_SSA", cat("value '", printable(name), "' is defined twice"));
  }
  if (const auto it = scope.bound.find(name); it != scope.bound.end()) return scope.values[name] = it->second;
  check_name(name, "value");
  SourceValue v;
  v.name = value_name(scope, name, false);
  if (&scope == &top_) {
    if (const auto hint = hints_.find(name); hint != hints_.end()) set_type(v, *hint->second);
  }
  const int index = scope.graph->add_value(std::move(v));
  if (scope.graph == top_.graph) {
    out_.slot_of.push_back(-1);
    out_.visible.push_back(&scope == &top_);
  }
  return scope.values[name] = index;
}

const HostTensor* SourceBuilder::constant_source(const SourceGraph& graph, int value) const {
  while (value >= 0) {
    const SourceValue& v = graph.values[static_cast<size_t>(value)];
    if (v.kind == SourceKind::constant) return v.data ? &v.data : nullptr;
    if (v.kind != SourceKind::temp || v.producer < 0) return nullptr;
    const SourceNode& n = graph.nodes[static_cast<size_t>(v.producer)];
    if (n.op != "Identity" || !n.domain.empty()) return nullptr;
    value = n.inputs.at(0);
  }
  return nullptr;
}

}  // namespace amp
