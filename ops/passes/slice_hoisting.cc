// Slice hoisting (slice_hoisting.h). SliceHoister goes through the graph backwards to find the part of each value that
// is needed. Then it writes a graph that computes only these parts. If different parts of a value are needed, the value
// is computed completely.

#include "ops/passes/slice_hoisting.h"

#include <algorithm>
#include <optional>

#include "graph/copier.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "ops/compose.h"
#include "ops/passes/padding_flow.h"

namespace amp {

namespace {

// A range of positions along one axis. The axis is identified by the number of axes after it, which is the same for
// operands of different ranks that broadcast.
struct Part {
  size_t axes_after = 0;
  int64_t start = 0, step = 1, count = 0;
  bool operator==(const Part&) const = default;
};

// How much of a value its readers need.
struct Demand {
  enum Kind : uint8_t { none, part, all } kind = none;
  Part of;
  void join(const Demand& other) {
    if (other.kind == none || (kind == other.kind && of == other.of)) return;
    if (kind == none)
      *this = other;
    else
      *this = {all, {}};
  }
};

class SliceHoister {
 public:
  SliceHoister(const Graph& g, const Evaluator& evaluator)
      : g_(g),
        demands_(static_cast<size_t>(g.n_values())),
        narrow_(demands_.size(), false),
        b_(out_, evaluator),
        mapped_(g, out_, &b_) {}

  Graph run() {
    for (const auto& o : g_.outputs) want(o.value, {Demand::all, {}});
    for (int32_t n = g_.n_nodes(); n-- > 0;) visit(g_.node(NodeId{n}));
    if (!products_) return g_;
    for (int32_t n = 0; n < g_.n_nodes(); ++n) emit(g_.node(NodeId{n}));
    mapped_.finish();
    return prune(out_);
  }

 private:
  Demand& demand(ValueId v) { return demands_[static_cast<size_t>(v.index)]; }
  bool narrow(ValueId v) const { return narrow_[static_cast<size_t>(v.index)]; }
  const Dims& dims(ValueId v) const { return g_.value(v).dims; }
  void want(ValueId v, const Demand& d) {
    if (v) demand(v).join(d);
  }
  static size_t axis_of(const Dims& d, const Part& p) { return d.size() - 1 - p.axes_after; }

  // If n slices a single axis that is neither the first (samples) nor the last, returns the part that it takes.
  std::optional<Part> part_of(const Node& n) const {
    if (n.op->name != "Slice") return std::nullopt;
    const Dims &x = dims(n.in[0]), &y = dims(n.out[0]);
    const auto starts = n.attrs.ints("starts"), steps = n.attrs.ints("steps");
    std::optional<Part> part;
    for (size_t k = 0; k < x.size(); ++k) {
      if (y[k] == x[k] && starts[k] == 0 && steps[k] == 1) continue;
      if (part || k == 0 || k + 1 == x.size() || steps[k] < 1) return std::nullopt;
      part = Part{x.size() - 1 - k, starts[k], steps[k], y[k]};
    }
    return part;
  }

  // Returns for each input whether it must be sliced if output 0 is sliced to p. Returns nullopt if the node mixes
  // positions.
  std::optional<std::vector<bool>> inputs_cut(const Node& n, const Part& p) const {
    const Dims& y = dims(n.out[0]);
    const size_t axis = axis_of(y, p);
    std::vector<bool> cut(n.in.size(), false);
    if (is_elementwise(n)) {
      for (size_t i = 0; i < n.in.size(); ++i) {
        const Dims& x = n.in[i] ? dims(n.in[i]) : Dims{};
        cut[i] = x.size() > p.axes_after && x[axis_of(x, p)] == y[axis] && y[axis] != 1;
      }
      return cut;
    }
    cut[0] = true;
    if (n.op->name == "MatMul") {
      const bool rows = n.attrs.i("transA", 0) == 0 && dims(n.in[1]).size() == 2 && p.axes_after > 0;
      if (rows && dims(n.in[0]).size() == y.size()) return cut;
    } else if (n.op->name == "LayerNorm") {
      int64_t inner = 1;  // number of elements after the axis
      for (size_t k = axis + 1; k < y.size(); ++k) inner *= y[k];
      const bool statistics = std::any_of(n.out.begin() + 1, n.out.end(), [&](ValueId v) {
        return v && demands_[static_cast<size_t>(v.index)].kind != Demand::none;
      });
      if (inner % n.attrs.i("n", 1) == 0 && !statistics) return cut;
    } else if (n.op->name == "Dropout") {
      // Each element keeps its index within the sample, so its random bits stay the same.
      if (axis == 1 && p.start == 0 && p.step == 1 && n.attrs.i("rows", 1) == y[0]) return cut;
    }
    return std::nullopt;
  }

  void visit(const Node& n) {
    if (const auto part = part_of(n)) {
      if (demand(n.out[0]).kind != Demand::none) want(n.in[0], {Demand::part, *part});
      return;
    }
    const Demand d = demand(n.out[0]);
    const auto cut = d.kind == Demand::part ? inputs_cut(n, d.of) : std::nullopt;
    const bool read =
        std::any_of(n.out.begin(), n.out.end(), [&](ValueId v) { return demand(v).kind != Demand::none; });
    if (!read) return;
    if (cut) {
      narrow_[static_cast<size_t>(n.out[0].index)] = true;
      products_ |= n.op->name == "MatMul";
    }
    for (size_t i = 0; i < n.in.size(); ++i) want(n.in[i], cut && (*cut)[i] ? d : Demand{Demand::all, {}});
  }

  // Returns part p of v in the new graph.
  ValueId piece(ValueId v, const Part& p) {
    if (narrow(v)) return mapped_(v);
    const ValueId x = mapped_(v);
    return slice(b_, x, static_cast<int64_t>(axis_of(b_.dims(x), p)), p.start, p.count, p.step);
  }

  void emit(const Node& n) {
    b_.origin = n.origin;
    if (const auto part = part_of(n); part && narrow(n.in[0])) return mapped_.set(n.out[0], mapped_(n.in[0]));
    std::vector<ValueId> in = n.in;
    const Demand d = demand(n.out[0]);
    const auto cut = narrow(n.out[0]) ? inputs_cut(n, d.of) : std::nullopt;
    for (size_t i = 0; i < in.size(); ++i) in[i] = cut && (*cut)[i] ? piece(in[i], d.of) : mapped_(in[i]);
    mapped_.set(n.out, b_.ops(n.op->name, std::move(in), n.attrs));
  }

  const Graph& g_;
  std::vector<Demand> demands_;
  std::vector<bool> narrow_;  // indexed by value: whether only the needed positions are computed
  bool products_ = false;
  Graph out_;
  Builder b_;
  ValueMap mapped_;
};

}  // namespace

Graph hoist_slices(const Graph& g, const Evaluator& evaluator) { return SliceHoister(g, evaluator).run(); }

}  // namespace amp
