// Applies a plan in two passes. A backward pass records the types in which the readers of each value need it (Demand).
// A forward pass rebuilds the graph with Builder, which merges equal Casts. Only floating-point values change their
// type.
#include "precision/apply.h"

#include <algorithm>

#include "base/error.h"

namespace amp {

namespace {

struct Demand {  // the types in which the readers of a value compute
  bool low = false, full = false;
};

class Apply {
 public:
  Apply(const Graph& g, const std::vector<DType>& compute, DType low, const Evaluator& evaluator)
      : g_(g),
        compute_(compute),
        low_(low),
        demand_(static_cast<size_t>(g.n_values())),
        map_(demand_.size()),
        builder_(out_, evaluator) {}

  Graph run() {
    find_demand();
    for (int32_t n = 0; n < g_.n_nodes(); ++n) emit(g_.node(NodeId{n}));
    for (const auto& o : g_.outputs) out_.outputs.push_back({o.name, mapped(o.value)});
    return std::move(out_);
  }
  std::vector<ValueId> map() const { return map_; }

 private:
  DType compute_of(const Node& n) const {
    const int s = n.origin.source_node;
    return s >= 0 && s < static_cast<int>(compute_.size()) ? compute_[static_cast<size_t>(s)] : DType::f32;
  }
  Demand& demand(ValueId v) { return demand_[static_cast<size_t>(v.index)]; }

  void find_demand() {
    for (const auto& o : g_.outputs) demand(o.value).full = true;
    for (int32_t n = g_.n_nodes(); n-- > 0;) {
      const Node& node = g_.node(NodeId{n});
      Demand d;
      if (node.op->moves) {
        for (const ValueId v : node.out) {
          d.low |= demand(v).low;
          d.full |= demand(v).full;
        }
      } else {
        (is_low(compute_of(node)) ? d.low : d.full) = true;
      }
      for (size_t i = 0; i < node.in.size(); ++i) {
        if (!node.in[i]) continue;
        const bool wide = stays_wide(node, i);
        demand(node.in[i]).low |= d.low && !wide;
        demand(node.in[i]).full |= d.full || wide;
      }
    }
  }

  ValueId mapped(ValueId v) {
    if (!v) return {};
    ValueId& to = map_[static_cast<size_t>(v.index)];
    if (to) return to;
    const Value& x = g_.value(v);
    switch (x.kind) {
      case ValueKind::input: {
        const Demand& d = demand(v);
        to = out_.add_input(x.name, is_float(x.dtype) && d.low && !d.full ? low_ : x.dtype, x.dims);
        break;
      }
      case ValueKind::param:
        to = out_.add_param(x.slot, x.name, x.dtype, x.dims);
        break;
      case ValueKind::constant:
        to = builder_.constant(x.constant);
        break;
      case ValueKind::temp:
        bug("apply_precision: a value is used before its node");
    }
    return to;
  }

  ValueId in_type(ValueId v, DType t) {
    const ValueId to = mapped(v);
    if (!to || builder_.dtype(to) == t || !is_float(builder_.dtype(to))) return to;
    return builder_.cast(to, t);
  }

  // Returns whether input i stays fp32 although the node computes in 16 bits. This holds for scale, bias and statistics
  // of BatchNormalization, as under PyTorch's autocast: variances may exceed 65504, also later in training, when the
  // plan is fixed. It also holds for an attention mask, because -FLT_MAX would become infinite and a fully masked row
  // NaN. The scales of a quantized weight also keep their type; only the dequantized elements are rounded.
  static bool stays_wide(const Node& node, size_t i) {
    if (node.op->name == "FusedAttention") return i == 3;
    if (node.op->deferred) return true;
    return i > 0 && (node.op->name == "BatchNorm" || node.op->name == "BatchNormTrain");
  }

  // Returns the common type of the floating-point inputs of a node that only moves elements. It is the 16-bit type if
  // all inputs already have it. It is also the 16-bit type if all readers need only 16 bits and casting the inputs
  // needs no more casts than casting the output.
  DType moved_type(const Node& node) {
    size_t low = 0, wide = 0;
    int64_t in = 0, out = 0;
    for (const ValueId v : node.in) {
      if (!v || !is_float(g_.value(v).dtype)) continue;
      ++(is_low(builder_.dtype(mapped(v))) ? low : wide);
      in += numel(g_.value(v).dims);
    }
    for (const ValueId v : node.out) out += numel(g_.value(v).dims);
    const Demand& d = demand(node.out.at(0));
    const bool hoist = d.low && !d.full && node.out.size() == 1 && in <= out && wide <= low + 1;
    return low + wide > 0 && (wide == 0 || hoist) ? low_ : DType::f32;
  }

  void emit(const Node& node) {
    DType compute = compute_of(node);
    builder_.origin = Origin{node.origin.source_node, "cast for", compute};
    std::vector<ValueId> in;
    if (node.op->moves) {
      compute = moved_type(node);
      for (const ValueId v : node.in) in.push_back(in_type(v, compute));
    } else {
      for (size_t i = 0; i < node.in.size(); ++i) {
        in.push_back(is_low(compute) && !stays_wide(node, i) ? in_type(node.in[i], low_) : mapped(node.in[i]));
      }
    }
    builder_.origin = node.origin;
    builder_.origin.compute = compute;
    const int32_t before = out_.n_nodes();
    const std::vector<ValueId> made = builder_.ops(node.op->name, std::move(in), node.attrs);
    const bool fresh = out_.n_nodes() > before;
    for (size_t i = 0; i < made.size(); ++i) {
      map_[static_cast<size_t>(node.out[i].index)] = made[i];
      const Value& was = g_.value(node.out[i]);
      if (!fresh || !is_float(was.dtype) || node.op->moves || node.op->deferred ||
          out_.value(made[i]).kind != ValueKind::temp)
        continue;
      if (is_low(compute)) continue;  // shape inference has already set the 16-bit type
      const Demand& d = demand(node.out[i]);
      const bool stat = i > 0;  // true for the statistics of a norm, which stay fp32
      out_.set_dtype(made[i], d.low && !d.full && !stat ? low_ : DType::f32);
    }
  }

  const Graph& g_;
  const std::vector<DType>& compute_;
  const DType low_;
  std::vector<Demand> demand_;
  std::vector<ValueId> map_;
  Graph out_;
  Builder builder_;
};

}  // namespace

Graph apply_precision(const Graph& g, const std::vector<DType>& compute, DType low, const Evaluator& evaluator,
                      std::vector<ValueId>* map) {
  check(g.param_grads.empty(), "the precision plan is applied before autodiff");
  Apply apply(g, compute, low, evaluator);
  Graph out = apply.run();
  if (map) *map = apply.map();
  return out;
}

}  // namespace amp
