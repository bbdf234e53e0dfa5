// Builder::ops() validates a node, simplifies it, eliminates common subexpressions and folds constants, in this order.
// Nodes with an effect (random numbers, communication) are neither merged nor folded.
#include "graph/builder.h"

#include <algorithm>

#include "base/error.h"
#include "graph/limits.h"
#include "graph/lists.h"
#include "graph/signature.h"

namespace amp {

namespace {
constexpr int64_t kLazyExpandBytes = int64_t{1} << 20;  // an Expand of a constant to more bytes than this is not folded

// Evaluates a node whose inputs are constants. Returns its outputs.
std::vector<HostTensor> fold(const Graph& g, const Evaluator& evaluate, const OpDef& def,
                             const std::vector<ValueId>& in, const Attrs& attrs,
                             const std::vector<std::pair<DType, Dims>>& outputs, int64_t bytes) {
  require_constant(def.name, static_cast<double>(bytes));
  std::vector<HostTensor> inputs;
  for (const ValueId v : in) inputs.push_back(v ? g.value(v).constant : HostTensor());
  try {
    return evaluate(def, inputs, attrs, outputs);
  } catch (const Error& e) {  // the data are the model's constants, so it is a model error
    if (e.exit() != Exit::data) throw;
    fail(Exit::model, "E_INDEX", cat("among the model's constants: ", e.fact()));
  }
}

bool all_constant(const Graph& g, const std::vector<ValueId>& in) {
  return std::all_of(in.begin(), in.end(), [&](ValueId v) { return !v || g.value(v).kind == ValueKind::constant; });
}
}  // namespace

ValueId Builder::op(std::string_view name, std::vector<ValueId> in, Attrs attrs) {
  return ops(name, std::move(in), std::move(attrs)).at(0);
}
ValueId Builder::op(std::string_view name, std::initializer_list<ValueId> in, Attrs attrs) {
  return op(name, std::vector<ValueId>(in), std::move(attrs));
}

std::vector<ValueId> Builder::ops(std::string_view name, std::vector<ValueId> in, Attrs attrs) {
  const OpDef& def = core_op(name);
  if (in.size() < def.min_inputs)
    fail(Exit::model, "E_ATTR", cat(name, " has ", in.size(), " inputs, it takes ", def.min_inputs));
  for (const ValueId v : in) {
    if (v && list_of(graph_, v))
      fail(Exit::model, "E_VALUE_TYPE", cat(name, " is given a sequence or an optional; it takes tensors"));
  }
  check_node(name, {graph_, in, attrs, {}});
  if (def.simplify) {
    if (const ValueId same = def.simplify(*this, in, attrs)) return {same};
  }
  std::string key;
  if (def.effect == Effect::pure) {
    key = def.name + '(';
    for (const ValueId v : in) key += std::to_string(v.index) + ',';
    key += attrs.key();
    const auto it = seen_.find(key);
    if (it != seen_.end()) return graph_.node(it->second).out;
    if (evaluate_ && all_constant(graph_, in)) {
      InferCtx c{graph_, in, attrs, {}};
      def.infer(c);
      int64_t bytes = 0;
      for (const auto& [t, d] : c.outputs) bytes = std::max(bytes, checked_mul(numel(d), size_of(t)));
      const bool grows = def.name == "Expand" && bytes > kLazyExpandBytes;
      if (def.view && graph_.value(in[0]).constant)  // a view shares the constant's bytes
        return {constant(graph_.value(in[0]).constant.reshaped(c.outputs.at(0).second))};
      if (!grows && !def.deferred) {
        std::vector<ValueId> out;
        for (HostTensor& t : fold(graph_, evaluate_, def, in, attrs, c.outputs, bytes))
          out.push_back(constant(std::move(t)));
        return out;
      }
    }
  }
  const NodeId n = graph_.add_node(def, std::move(in), std::move(attrs), origin);
  if (!key.empty()) seen_.emplace(std::move(key), n);
  return graph_.node(n).out;
}

ValueId Builder::constant(HostTensor t) {
  if (t.numel() > 64) return graph_.add_constant(std::move(t));
  std::string key = cat(name_of(t.dtype()), to_string(t.dims()));
  key.append(static_cast<const char*>(t.data()), static_cast<size_t>(t.bytes()));
  const auto it = constants_.find(key);
  if (it != constants_.end()) return it->second;
  const ValueId v = graph_.add_constant(std::move(t));
  constants_.emplace(std::move(key), v);
  return v;
}

ValueId Builder::scalar(double v, DType t) { return constant(HostTensor::scalar<double>(v).cast(t)); }

const HostTensor* Builder::constant_of(ValueId v) const {
  const Value& x = graph_.value(v);
  return x.kind == ValueKind::constant ? &x.constant : nullptr;
}

// Evaluates the node that computes v, after the nodes from which it gets its inputs.
HostTensor Builder::content_of(ValueId v) const {
  if (const HostTensor* t = constant_of(v)) return *t;
  const Value& x = graph_.value(v);
  if (!x.producer || !evaluate_) return {};
  const Node& n = graph_.node(x.producer);
  if (n.op->effect != Effect::pure || n.out.size() != 1) return {};
  std::vector<HostTensor> in;
  for (const ValueId i : n.in) {
    in.push_back(i ? content_of(i) : HostTensor());
    if (i && !in.back()) return {};
  }
  require_constant(n.op->name, static_cast<double>(checked_mul(numel(x.dims), size_of(x.dtype))));
  return evaluate_(*n.op, in, n.attrs, {{x.dtype, x.dims}}).at(0);
}

bool Builder::is_constant(ValueId v, double x) const {
  const HostTensor* t = constant_of(v);
  if (!t || t->numel() == 0) return false;
  const std::vector<double> d = t->to_doubles();
  return std::all_of(d.begin(), d.end(), [x](double e) { return e == x; });
}

ValueId Builder::reshape(ValueId x, Dims d) { return op("Reshape", {x}, {{"dims", std::move(d)}}); }
ValueId Builder::transpose(ValueId x, std::vector<int64_t> perm) {
  return op("Transpose", {x}, {{"perm", std::move(perm)}});
}
ValueId Builder::cast(ValueId x, DType to) { return op("Cast", {x}, {{"to", static_cast<int64_t>(to)}}); }
ValueId Builder::expand(ValueId x, Dims d) { return op("Expand", {x}, {{"dims", std::move(d)}}); }
ValueId Builder::reduce_sum(ValueId x, std::vector<int64_t> axes, bool keepdims) {
  return op("ReduceSum", {x}, {{"axes", std::move(axes)}, {"keepdims", int64_t{keepdims}}});
}

}  // namespace amp
