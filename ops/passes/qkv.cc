// Merges the q, k and v projections of self attention into one product (qkv.h). part_gradients() writes the gradients
// of the merged weights to separate outputs again.

#include "ops/passes/qkv.h"

#include <algorithm>
#include <map>

#include "graph/copier.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "ops/compose.h"
#include "ops/passes/matcher.h"

namespace amp {

namespace {

// Returns whether v is a parameter or a view of one.
bool is_param(const Graph& g, ValueId v) { return g.value(skip_views(g, v)).kind == ValueKind::param; }

struct Projections {
  const Node* product[3];
};

class ProjectionMerger : public Matcher {
 public:
  ProjectionMerger(const Graph& g, const std::vector<DType>& compute, const Evaluator& evaluator)
      : Matcher(g, compute), b_(out_, evaluator), mapped(g, out_, &b_) {}

  Graph run() {
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      const Node& node = g_.node(NodeId{n});
      b_.origin = node.origin;
      const auto p = projections(node);
      mapped.set(node.out, p ? packed(node, *p) : b_.ops(node.op->name, mapped(node.in), node.attrs));
    }
    mapped.finish();
    return prune(out_);
  }

 private:
  // Matches q, k and v of the form Reshape(x W [+ b]) to (B, S, N, H), with the same x, if nothing else reads the
  // products.
  std::optional<Projections> projections(const Node& node) {
    if (node.op->name != "FusedAttention" || node.attrs.i("packed", 0) != 0 || node.attrs.i("heads_first", 0) != 0)
      return std::nullopt;
    Projections p{};
    for (size_t i = 0; i < 3; ++i) {
      const ValueId v = node.in[i];
      const Node* reshape = uses(v) == 1 ? producer(v, "Reshape") : nullptr;
      const Node* mm = reshape && uses(reshape->in[0]) == 1 ? producer(reshape->in[0], "MatMul") : nullptr;
      if (!mm || dims(v) != dims(node.in[0]) || dims(mm->out[0]).back() != dims(v)[2] * dims(v)[3]) return std::nullopt;
      if (!is_weight(mm->in[1], 2) || (mm->in.size() > 2 && !is_weight(mm->in[2], 1))) return std::nullopt;
      p.product[i] = mm;
      const Node& first = *p.product[0];
      if (mm->in[0] != first.in[0] || mm->in.size() != first.in.size() || mm->attrs.key() != first.attrs.key() ||
          dims(mm->in[1]) != dims(first.in[1]))
        return std::nullopt;
      if (type(g_.value(mm->out[0]).producer) != type(g_.value(first.out[0]).producer)) return std::nullopt;
    }
    if (p.product[0]->attrs.i("transA", 0) != 0) return std::nullopt;
    return p;
  }
  bool is_weight(ValueId v, size_t rank) const { return dims(v).size() == rank && is_param(g_, v); }

  std::vector<ValueId> packed(const Node& node, const Projections& p) {
    const Node& mm = *p.product[0];
    const Origin attention = b_.origin;
    b_.origin = mm.origin;
    const auto side_by_side = [&](size_t i, int64_t axis) {
      return concat(b_, {mapped(p.product[0]->in[i]), mapped(p.product[1]->in[i]), mapped(p.product[2]->in[i])}, axis);
    };
    std::vector<ValueId> in{mapped(mm.in[0]), side_by_side(1, mm.attrs.i("transB", 0) != 0 ? 0 : 1)};
    if (mm.in.size() > 2) in.push_back(side_by_side(2, 0));
    const ValueId y = b_.op("MatMul", std::move(in), mm.attrs);
    const Dims d = dims(node.in[0]);
    b_.origin = attention;
    std::vector<ValueId> operands{b_.reshape(y, {d[0], d[1], 3, d[2], d[3]}), {}, {}};
    for (size_t i = 3; i < node.in.size(); ++i) operands.push_back(mapped(node.in[i]));
    Attrs a = node.attrs;
    a.set("packed", int64_t{1});
    return b_.ops("FusedAttention", std::move(operands), std::move(a));
  }

  Graph out_;
  Builder b_;
  ValueMap mapped;
};

// If the readers of v are slices that divide v along an axis into equal parts, returns them in order; otherwise
// nothing.
std::vector<int32_t> equal_parts(const Graph& g, ValueId v, size_t axis, const std::vector<int32_t>& readers) {
  const Dims& whole = g.value(v).dims;
  std::map<int64_t, int32_t> by_start;
  for (const int32_t n : readers) {
    const Node& slice = g.node(NodeId{n});
    if (slice.op->name != "Slice") return {};
    const Dims& part = g.value(slice.out[0]).dims;
    const auto starts = slice.attrs.ints("starts"), steps = slice.attrs.ints("steps");
    for (size_t d = 0; d < whole.size(); ++d) {
      const bool cut = d == axis;
      if (steps[d] != 1 || (!cut && part[d] != whole[d])) return {};
    }
    by_start[starts[axis]] = n;
  }
  const auto count = static_cast<int64_t>(readers.size());
  if (count < 2 || whole[axis] % count != 0) return {};
  std::vector<int32_t> out;
  for (const auto& [start, n] : by_start) {
    const int64_t part = g.value(g.node(NodeId{n}).out[0]).dims[axis];
    if (part != whole[axis] / count || start != part * static_cast<int64_t>(out.size())) return {};
    out.push_back(n);
  }
  return static_cast<int64_t>(out.size()) == count ? out : std::vector<int32_t>{};
}

}  // namespace

Graph part_gradients(const Graph& g) {
  constexpr size_t kMost = 4;
  std::vector<std::vector<int32_t>> readers(static_cast<size_t>(g.n_values()));
  std::vector<bool> kept(readers.size(), false), gone(static_cast<size_t>(g.n_nodes()), false);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    for (const ValueId v : g.node(NodeId{n}).in) {
      if (v) readers[static_cast<size_t>(v.index)].push_back(n);
    }
  }
  for (const auto& o : g.outputs) kept[static_cast<size_t>(o.value.index)] = true;
  for (const auto& p : g.param_grads) kept[static_cast<size_t>(p.value.index)] = true;
  Copier out(g);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (gone[static_cast<size_t>(n)]) continue;
    std::vector<int32_t> weights, biases;
    if (node.op->name == "MatMulBiasGrad" && node.attrs.i("parts", 1) == 1) {
      const auto parts = [&](size_t i, size_t axis) {
        const auto at = static_cast<size_t>(node.out[i].index);
        return kept[at] ? std::vector<int32_t>{} : equal_parts(g, node.out[i], axis, readers[at]);
      };
      weights = parts(0, node.attrs.i("of", 1) == 0 ? 0 : 1);
      biases = parts(1, 0);
    }
    if (weights.empty() || weights.size() != biases.size() || weights.size() > kMost) {
      out.node(NodeId{n}, types_of(g, node.out));
      continue;
    }
    Node like = node;
    like.attrs.set("parts", static_cast<int64_t>(weights.size()));
    weights.insert(weights.end(), biases.begin(), biases.end());
    std::vector<ValueId> made;
    for (const int32_t slice : weights) {
      gone[static_cast<size_t>(slice)] = true;
      made.push_back(g.node(NodeId{slice}).out[0]);
    }
    out.add(like, node.in, made, types_of(g, made));
  }
  out.finish();
  return std::move(out.out);
}

Graph merge_qkv(const Graph& g, const std::vector<DType>& compute, const Evaluator& evaluator) {
  return ProjectionMerger(g, compute, evaluator).run();
}

}  // namespace amp
