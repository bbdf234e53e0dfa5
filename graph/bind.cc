// bind() lowers the live nodes in topological order with a Builder. Leaves (inputs, parameters, constants) are bound on
// first use. Budget limits nodes and bytes: a small file can unroll loops or expand shapes to any size.
#include "graph/bind.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "graph/fixed_rows.h"
#include "graph/limits.h"
#include "graph/lists.h"
#include "graph/lower.h"
#include "graph/node_fault.h"
#include "graph/signature.h"
#include "graph/symbols.h"

namespace amp {

ValueId Lowering::in(size_t i) const {
  if (!has(i)) fail(Exit::model, "E_ATTR", cat("input ", i, " is missing"));
  return in_[i];
}

DType Lowering::float_type() const { return options.float_type; }

const HostTensor& Lowering::constant(size_t i) const {
  const HostTensor* t = b.constant_of(in(i));
  if (!t) {
    fail(Exit::unsupported, "E_DYNAMIC", cat("input ", i, " (a shape, an axis or the like) depends on the data"),
         "re-export the model so that this input follows from the input shapes");
  }
  return *t;
}

std::vector<int64_t> Lowering::ints_or_attr(size_t i, const std::string& attr, std::vector<int64_t> fallback) const {
  if (has(i)) return ints(i);
  return attrs.ints(attr, std::move(fallback));
}

void Lowering::out(size_t i, ValueId v) {
  if (i < out_.size()) out_[i] = v;
}

void Lowering::unsupported(const std::string& fact) const {
  fail(Exit::unsupported, "E_OP_CASE", node.op + ": " + fact);
}

ParamTable::ParamTable(const SourceGraph& g) : slot_of(g.values.size(), -1) {
  for (size_t i = 0; i < g.values.size(); ++i) {
    if (g.values[i].kind == SourceKind::parameter && g.values[i].tied_to < 0) {
      slot_of[i] = static_cast<int>(source_value.size());
      source_value.push_back(static_cast<int>(i));
    }
  }
  for (size_t i = 0; i < g.values.size(); ++i) {
    if (g.values[i].kind == SourceKind::parameter && g.values[i].tied_to >= 0) {
      slot_of[i] = slot_of[static_cast<size_t>(g.values[i].tied_to)];
    }
  }
}

std::vector<bool> live_nodes(const SourceGraph& g, const std::vector<int>& outputs) {
  std::vector<bool> live(g.nodes.size(), false);
  std::vector<bool> wanted(g.values.size(), false);
  for (const int o : outputs) wanted[static_cast<size_t>(o)] = true;
  for (size_t n = g.nodes.size(); n-- > 0;) {
    const auto& outs = g.nodes[n].outputs;
    live[n] = std::any_of(outs.begin(), outs.end(), [&](int v) { return v >= 0 && wanted[static_cast<size_t>(v)]; });
    if (!live[n]) continue;
    for (const int v : g.nodes[n].inputs) {
      if (v >= 0) wanted[static_cast<size_t>(v)] = true;
    }
  }
  return live;
}

std::vector<int> needed_inputs(const SourceGraph& g, const std::vector<int>& outputs) {
  const std::vector<bool> live = live_nodes(g, outputs);
  std::vector<bool> used(g.values.size(), false);
  for (const int o : outputs) used[static_cast<size_t>(o)] = true;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (!live[n]) continue;
    for (const int v : g.nodes[n].inputs) {
      if (v >= 0) used[static_cast<size_t>(v)] = true;
    }
  }
  std::vector<int> out;
  for (const int v : g.inputs) {
    if (used[static_cast<size_t>(v)]) out.push_back(v);
  }
  return out;
}

std::vector<int> unknown_operators(const SourceGraph& g, const std::vector<int>& outputs) {
  const std::vector<bool> live = live_nodes(g, outputs);
  std::vector<int> out;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (live[n] && !find_onnx_op(g.nodes[n].domain, g.nodes[n].op, g.nodes[n].version))
      out.push_back(static_cast<int>(n));
  }
  return out;
}

namespace {
DType working_type(DType file_type, DType float_type) { return is_float(file_type) ? float_type : file_type; }

ValueId bind_constant(const SourceValue& v, const BindOptions& o, Builder& b) {
  if (!v.data)
    fail(Exit::unsupported, "E_TYPE",
         cat("constant '", printable(v.name), "' holds strings: nothing computes on them"));
  return b.constant(v.data.cast(working_type(v.data.dtype(), o.float_type)));
}

// Binds a constant without elements, such as a cache without positions. An open first dimension gets the batch's rows.
ValueId bind_empty(const SourceGraph& g, const SourceValue& v, const BindOptions& o, Builder& b) {
  Dims dims = v.data.dims();
  if (v.dims[0].value < 0) dims[0] *= fed_rows(g, o.input_dims, v.dims[0]);
  return b.constant(HostTensor::zeros(working_type(v.data.dtype(), o.float_type), dims));
}

// Binds an input whose value is known (SourceValue::data) as a constant. A smaller value is repeated until it fills the
// input's shape.
ValueId bind_fixed_input(const SourceValue& v, const BindOptions& o, Builder& b) {
  const HostTensor value = v.data.cast(working_type(v.dtype, o.float_type));
  const auto it = o.input_dims.find(v.name);
  if (it == o.input_dims.end() || it->second == value.dims()) return b.constant(value);
  HostTensor rows = HostTensor::empty(value.dtype(), it->second);
  if (value.numel() == 0 || rows.numel() % value.numel() != 0)
    fail(Exit::data, "E_DATA_SHAPE",
         cat("input '", printable(v.name), "' is ", to_string(it->second), ", its value ", to_string(value.dims())));
  auto* const to = static_cast<char*>(rows.mutable_data());
  for (int64_t i = 0; i < rows.numel() / value.numel(); ++i)
    std::memcpy(to + i * value.bytes(), value.data(), static_cast<size_t>(value.bytes()));
  return b.constant(rows);
}

// Returns parameter p repeated along v.tied_axis until it has the shape of v.
ValueId repeated_param(Builder& b, ValueId p, const SourceValue& v) {
  const auto axis = static_cast<size_t>(v.tied_axis);
  const Dims& whole = v.data.dims();
  Dims one = whole;
  if (b.dims(p).size() == whole.size()) {
    one[axis] = b.dims(p)[axis];
    p = b.expand(p, one);  // p may have extent 1 along other axes too, whose slices are all equal
  } else {
    one[axis] /= numel(whole) / numel(b.dims(p));
    p = b.reshape(p, one);
  }
  if (one[axis] == 1) return b.expand(p, whole);
  return b.op("Concat", std::vector<ValueId>(static_cast<size_t>(whole[axis] / one[axis]), p),
              {{"axis", int64_t{v.tied_axis}}});
}

ValueId bind_leaf(const SourceGraph& g, const ParamTable& params, const BindOptions& o, Builder& b, int index) {
  const SourceValue& v = g.values[static_cast<size_t>(index)];
  switch (v.kind) {
    case SourceKind::input: {
      if (v.data) return bind_fixed_input(v, o, b);
      const auto it = o.input_dims.find(v.name);
      if (it == o.input_dims.end()) {
        fail(Exit::usage, "E_INPUT",
             cat("the model needs input '", printable(v.name), "', the data has none of that name"));
      }
      return b.mutable_graph().add_input(v.name, working_type(v.dtype, o.float_type), it->second);
    }
    case SourceKind::parameter: {
      const int slot = params.slot_of[static_cast<size_t>(index)];
      const int master = params.source_value[static_cast<size_t>(slot)];
      const SourceValue& m = g.values[static_cast<size_t>(master)];
      ValueId p;
      // Only one Value may exist per parameter slot. A tied copy shares the Value of its master, so their gradients
      // accumulate.
      for (int32_t i = 0; i < b.graph().n_values() && !p; ++i) {
        const Value& x = b.graph().value(ValueId{i});
        if (x.kind == ValueKind::param && x.slot == slot) p = ValueId{i};
      }
      if (!p) p = b.mutable_graph().add_param(slot, m.name, o.float_type, m.data.dims());
      if (index == master) return p;
      if (v.tied_axis >= 0) return repeated_param(b, p, v);
      if (!v.tied_transposed) {  // v has the elements of its master in the same order, possibly in other dims
        const Dims &want = v.data.dims(), &have = m.data.dims();
        return want != have && numel(want) == numel(have) ? b.reshape(p, want) : p;
      }
      std::vector<int64_t> perm(m.data.dims().size());  // swaps the last two dims; leading dims are 1
      std::iota(perm.begin(), perm.end(), 0);
      std::swap(perm[perm.size() - 2], perm.back());
      return b.transpose(p, perm);
    }
    case SourceKind::constant:
      if (v.data && v.data.numel() == 0 && v.rank_known && !v.dims.empty()) return bind_empty(g, v, o, b);
      return bind_constant(v, o, b);
    case SourceKind::temp:
      break;
  }
  fail(Exit::model, "E_DANGLING", cat("value '", printable(v.name), "' is used but nothing produces it"));
}
}  // namespace

namespace {
// Limits the nodes and bytes that lowering adds to a graph. check() throws if the values with index `from` or higher
// exceed a limit; folded constants count too.
class Budget {
 public:
  Budget(const SourceGraph& g, const BindOptions& o) : limit_(activation_limit(g, o.input_dims)) {
    if (depth_ == 0) lowered_ = 0;
    count();
    ++depth_;
  }
  ~Budget() { --depth_; }
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;
  void check(const Graph& g, int32_t from) {
    count();
    if (g.n_nodes() > limits().graph_nodes) refuse_nodes("loops are unrolled");
    if (depth_ > 1) return;  // the enclosing loop checks the values of its iterations
    for (int32_t i = from; i < g.n_values(); ++i) {
      const Value& v = g.value(ValueId{i});
      const int64_t bytes = checked_mul(numel(v.dims), size_of(v.dtype));
      if (v.kind == ValueKind::constant) constants_ += bytes;
      if (bytes > limit_)
        refuse_bytes(cat(v.producer ? g.node(v.producer).op->name : "a constant", " makes ", name_of(v.dtype),
                         to_string(v.dims), ", ", bytes, " bytes"),
                     limit_);
      if (constants_ > limit_) refuse_bytes(cat("constants of ", constants_, " bytes are computed"), limit_);
    }
  }

 private:
  // Counts the nodes and loop bodies that this thread has lowered since its outermost bind() began. The size of the
  // graph is no substitute for this count, because nested loops may leave no nodes in it.
  static void count() {
    if (++lowered_ > limits().graph_nodes) refuse_nodes("loops are unrolled");
  }
  inline static thread_local int64_t lowered_ = 0, depth_ = 0;
  int64_t limit_, constants_ = 0;
};

// Returns true if the file fixes all input extents except the first (the batch). If a size does not match then, the
// error is in the file, not in the data.
bool fixed_sizes(const SourceGraph& g) {
  return std::all_of(g.inputs.begin(), g.inputs.end(), [&](int i) {
    const SourceValue& v = g.values[static_cast<size_t>(i)];
    const auto open = [](const Dim& d) { return d.value < 0; };
    return v.rank_known && (v.dims.empty() || std::none_of(v.dims.begin() + 1, v.dims.end(), open));
  });
}

using Leaf = std::function<ValueId(int)>;  // a function that binds a source value that no node produces

const OnnxOp& op_of(const SourceNode& node) {
  if (const OnnxOp* op = find_onnx_op(node.domain, node.op, node.version)) return *op;
  fail(Exit::unsupported, "E_OP_DOMAIN",
       cat("operator ", node.domain.empty() ? "" : node.domain + "::", node.op, " is not supported"));
}

[[noreturn]] void refuse_sequence(const SourceGraph& g, int output) {
  fail(Exit::unsupported, "E_SEQUENCE_OUTPUT",
       cat("graph output '", printable(g.values[static_cast<size_t>(output)].name), "' is a sequence"),
       "name tensors as outputs with `output`");
}

// Binds the live nodes of a graph in order. own_origin: if true, core nodes get the index of their source node as
// origin; if false, the builder's current origin. `faults`, if given, receives the errors; without it, the first error
// is thrown.
Bound bind_nodes(const SourceGraph& g, const std::vector<int>& outputs, const BindOptions& o, Builder& b,
                 const Leaf& bind_leaf, bool own_origin, std::map<int, Error>* faults) {
  Bound bound;
  bound.values.resize(g.values.size());
  Budget budget(g, o);
  const std::vector<bool> live = live_nodes(g, outputs);
  std::vector<bool> wanted(g.values.size(), false);
  for (const int v : outputs) wanted[static_cast<size_t>(v)] = true;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (!live[n]) continue;
    for (const int v : g.nodes[n].inputs) {
      if (v >= 0) wanted[static_cast<size_t>(v)] = true;
    }
  }
  const auto leaf = [&](int v) {
    ValueId& id = bound.values[static_cast<size_t>(v)];
    if (!id) id = bind_leaf(v);
    return id;
  };
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (!live[n]) continue;
    const SourceNode& node = g.nodes[n];
    const auto missing = [&](int v) {
      return v >= 0 && g.values[static_cast<size_t>(v)].producer >= 0 && !bound.values[static_cast<size_t>(v)];
    };
    if (faults && std::any_of(node.inputs.begin(), node.inputs.end(), missing)) continue;
    try {
      const OnnxOp& op = op_of(node);
      std::vector<ValueId> in;
      for (const int v : node.inputs) in.push_back(v < 0 ? ValueId{} : leaf(v));
      check_inputs(RegisterSignatures::onnx, node.domain, node.op, b.graph(), in);
      std::vector<bool> out_wanted;
      for (const int v : node.outputs) out_wanted.push_back(v >= 0 && wanted[static_cast<size_t>(v)]);
      if (own_origin) b.origin = Origin{static_cast<int>(n)};
      Lowering l(b, node, std::move(in), out_wanted, o);
      const int32_t before = b.graph().n_values();
      op.lower(l);
      budget.check(b.graph(), before);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (!out_wanted[i]) continue;
        if (!l.outputs()[i]) fail(Exit::unsupported, "E_OP_CASE", cat(node.op, ": output ", i, " is not supported"));
        if (own_origin && list_of(b.graph(), l.outputs()[i]) &&
            std::find(outputs.begin(), outputs.end(), node.outputs[i]) != outputs.end())
          refuse_sequence(g, node.outputs[i]);
        bound.values[static_cast<size_t>(node.outputs[i])] = l.outputs()[i];
      }
    } catch (const std::exception&) {
      Error e = node_fault(node.op);
      if (e.id() == "E_DATA_SIZE" && fixed_sizes(g)) e = Error(Exit::model, "E_SHAPE", e.fact());
      if (!faults) throw e.at("at " + g.describe_node(static_cast<int>(n)));
      for (const int v : node.outputs) {
        if (v >= 0) bound.values[static_cast<size_t>(v)] = {};
      }
      faults->emplace(static_cast<int>(n), e);
    }
  }
  for (const int v : outputs) {
    if (!faults || g.values[static_cast<size_t>(v)].kind != SourceKind::temp) leaf(v);
  }
  return bound;
}

Bound bind_model(const SourceGraph& g, const ParamTable& params, const BindOptions& o, Builder& b,
                 std::map<int, Error>* faults) {
  const RowPadding rows(g, o);
  const auto leaf = [&](int v) { return rows.pad(b, v, bind_leaf(g, params, o, b, v)); };
  Bound bound = bind_nodes(g, o.outputs, rows.options(), b, leaf, true, faults);
  rows.cut(b, o.outputs, bound);
  b.origin = {};
  return bound;
}
}  // namespace

Bound bind(const SourceGraph& g, const ParamTable& params, const BindOptions& o, Builder& b) {
  return bind_model(g, params, o, b, nullptr);
}

Bound bind_tolerant(const SourceGraph& g, const ParamTable& params, const BindOptions& o, Builder& b,
                    std::map<int, Error>& faults) {
  return bind_model(g, params, o, b, &faults);
}

std::vector<ValueId> bind_body(const SourceGraph& g, const std::vector<ValueId>& inputs,
                               const std::map<std::string, ValueId>& captured, const std::vector<bool>& wanted,
                               const BindOptions& o, Builder& b) {
  const auto leaf = [&](int index) {
    const SourceValue& v = g.values[static_cast<size_t>(index)];
    if (v.kind == SourceKind::constant) return bind_constant(v, o, b);
    if (v.kind == SourceKind::input) {
      const auto at = static_cast<size_t>(std::find(g.inputs.begin(), g.inputs.end(), index) - g.inputs.begin());
      if (at >= inputs.size())
        fail(Exit::model, "E_ATTR",
             cat("the graph inside takes ", g.inputs.size(), " inputs, it is given ", inputs.size()));
      return inputs[at];
    }
    const auto outer = captured.find(v.name);
    if (outer == captured.end())
      fail(Exit::model, "E_DANGLING", cat("value '", printable(v.name), "' is used but nothing produces it"));
    return outer->second;
  };
  std::vector<int> outputs;
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    if (i < wanted.size() && wanted[i]) outputs.push_back(g.outputs[i]);
  }
  const Bound bound = bind_nodes(g, outputs, o, b, leaf, false, nullptr);
  std::vector<ValueId> out(g.outputs.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (i < wanted.size() && wanted[i]) out[i] = bound.values[static_cast<size_t>(g.outputs[i])];
  }
  return out;
}

std::vector<Dims> probe_shapes(const SourceGraph& g, const ParamTable& params, const BindOptions& o,
                               const Evaluator& evaluator) {
  Graph graph;
  Builder b(graph, evaluator);
  const Bound bound = bind(g, params, o, b);
  std::vector<Dims> out(bound.values.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (bound.values[i]) out[i] = graph.value(bound.values[i]).dims;
  }
  return out;
}

}  // namespace amp
