#include "precision/apply.h"

#include <algorithm>

#include "base/error.h"

namespace amp {

namespace {

struct Demand {  // what the readers of a value compute in
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
      for (const ValueId v : node.in) {
        if (!v) continue;
        demand(v).low |= d.low;
        demand(v).full |= d.full;
      }
    }
  }

  ValueId mapped(ValueId v) {
    if (!v) return {};
    ValueId& to = map_[static_cast<size_t>(v.index)];
    if (to) return to;
    const Value& x = g_.value(v);
    switch (x.kind) {
      case ValueKind::input:
        to = out_.add_input(x.name, x.dtype, x.dims);
        break;
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

  void emit(const Node& node) {
    DType compute = compute_of(node);
    builder_.origin = Origin{node.origin.source_node, "cast for", compute};
    std::vector<ValueId> in;
    if (node.op->moves) {
      // All floating inputs in one type: 16 bit only if every one of them already is.
      bool all_low = true, any = false;
      for (const ValueId v : node.in) {
        if (!v || !is_float(g_.value(v).dtype)) continue;
        any = true;
        all_low = all_low && is_low(builder_.dtype(mapped(v)));
      }
      compute = any && all_low ? low_ : DType::f32;
      for (const ValueId v : node.in) in.push_back(any && !all_low ? in_type(v, DType::f32) : mapped(v));
    } else {
      for (const ValueId v : node.in) in.push_back(is_low(compute) ? in_type(v, low_) : mapped(v));
    }
    builder_.origin = node.origin;
    builder_.origin.compute = compute;
    const int32_t before = out_.n_nodes();
    const std::vector<ValueId> made = builder_.ops(node.op->name, std::move(in), node.attrs);
    const bool fresh = out_.n_nodes() > before;
    for (size_t i = 0; i < made.size(); ++i) {
      map_[static_cast<size_t>(node.out[i].index)] = made[i];
      const Value& was = g_.value(node.out[i]);
      if (!fresh || !is_float(was.dtype) || node.op->moves || out_.value(made[i]).kind != ValueKind::temp) continue;
      if (is_low(compute)) continue;  // inference gave the 16-bit type (and fp32 statistics)
      const Demand& d = demand(node.out[i]);
      const bool stat = i > 0;  // statistics of a norm stay fp32
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
