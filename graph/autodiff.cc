// Reverse-mode differentiation: visits the nodes in reverse order. The contributions to a gradient are stored in order
// of arrival and summed when the sum is read, so that sums do not depend on hashing or threads. Gradients of adjacent
// slices are concatenated instead of padded and added.
#include "graph/autodiff.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "graph/node_fault.h"

namespace amp {

namespace {
std::vector<bool> downstream_of(const Graph& g, const std::vector<ValueId>& wrt) {
  std::vector<bool> wanted(static_cast<size_t>(g.n_values()), false);
  for (const ValueId v : wrt) wanted[static_cast<size_t>(v.index)] = true;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (node.op->not_differentiable) continue;
    const bool any = std::any_of(node.in.begin(), node.in.end(),
                                 [&](ValueId v) { return v && wanted[static_cast<size_t>(v.index)]; });
    if (!any) continue;
    for (const ValueId v : node.out) wanted[static_cast<size_t>(v.index)] = is_float(g.value(v).dtype);
  }
  return wanted;
}
}  // namespace

Autodiff::Autodiff(Builder& b, const std::vector<ValueId>& wrt)
    : b_(b), n_nodes_(b.graph().n_nodes()), wanted_(downstream_of(b.graph(), wrt)), parts_(wanted_.size()) {}

void Autodiff::contribute(ValueId v, ValueId part) {
  if (!wanted(v)) return;
  const Value& x = b_.value(v);
  check(b_.dims(part) == x.dims,
        cat("gradient has shape ", to_string(b_.dims(part)), ", its value ", to_string(x.dims)));
  parts_[static_cast<size_t>(v.index)].push_back(b_.cast(part, x.dtype));
}

// If the parts are gradients of slices that together cover an axis without gaps, returns their Concat, which is
// cheaper than padding each part with zeros and adding. Otherwise returns an invalid id.
static ValueId join_slices(Builder& b, const std::vector<ValueId>& parts) {
  struct Slice {
    int64_t start;
    ValueId gradient;
  };
  std::vector<Slice> slices;
  std::optional<size_t> axis;
  for (const ValueId v : parts) {
    const Value& x = b.value(v);
    if (x.kind != ValueKind::temp || b.graph().node(x.producer).op->name != "SliceGrad") return {};
    const Node& n = b.graph().node(x.producer);
    const Dims& inside = b.dims(n.in[0]);
    const Dims starts = n.attrs.ints("starts"), steps = n.attrs.ints("steps");
    for (size_t d = 0; d < inside.size(); ++d) {
      if (inside[d] == x.dims[d]) continue;
      if (axis.value_or(d) != d || steps[d] != 1) return {};
      axis = d;
    }
    if (!axis || inside[*axis] == x.dims[*axis]) return {};
    slices.push_back({starts[*axis], n.in[0]});
  }
  std::sort(slices.begin(), slices.end(), [](const Slice& x, const Slice& y) { return x.start < y.start; });
  int64_t end = 0;
  std::vector<ValueId> joined;
  for (const Slice& s : slices) {
    if (s.start != end) return {};
    end += b.dims(s.gradient)[*axis];
    joined.push_back(s.gradient);
  }
  if (end != b.dims(parts[0])[*axis]) return {};
  return b.op("Concat", joined, {{"axis", static_cast<int64_t>(*axis)}});
}

ValueId Autodiff::grad(ValueId v) {
  if (!reached(v)) return {};
  auto& parts = parts_[static_cast<size_t>(v.index)];
  const Origin before = b_.origin;
  if (!*before.role) b_.origin.role = "gradient of";  // the role is empty if run() has ended
  if (parts.size() > 1) {
    if (const ValueId joined = join_slices(b_, parts)) parts = {joined};
  }
  while (parts.size() > 1) {
    const ValueId sum = b_.op("Add", {parts[0], parts[1]});
    parts.erase(parts.begin());
    parts[0] = sum;
  }
  b_.origin = before;
  return parts[0];
}

void Autodiff::run(std::vector<std::pair<NodeId, Error>>* faults) {
  for (int32_t n = n_nodes_; n-- > 0;) {
    const Node node = b_.graph().node(NodeId{n});  // a copy, because adding nodes to the graph below moves them
    if (std::none_of(node.out.begin(), node.out.end(), [&](ValueId v) { return reached(v); })) continue;
    if (std::none_of(node.in.begin(), node.in.end(), [&](ValueId v) { return v && wanted(v); })) continue;
    b_.origin = Origin{node.origin.source_node, "gradient of", node.origin.compute};
    GradBuilder g(*this, b_, NodeId{n});
    try {
      if (!node.op->gradient) fail(Exit::unsupported, "E_NO_GRAD", cat("operator ", node.op->name, " has no gradient"));
      node.op->gradient(g);
    } catch (const std::exception&) {
      Error e = node_fault(node.op->name);
      if (faults) {
        faults->emplace_back(NodeId{n}, e);
        continue;
      }
      if (!node.op->gradient) throw e;
      throw e.at(cat("in the gradient of ", node.op->name, " (#", node.origin.source_node, ")"));
    }
  }
  b_.origin = {};
}

bool GradBuilder::needs(size_t i) const { return i < n_in() && in(i) && ad_.wanted(in(i)); }
bool GradBuilder::has_dy(size_t i) const { return ad_.reached(out(i)); }

ValueId GradBuilder::dy(size_t i) {
  if (const ValueId v = ad_.grad(out(i))) return v;
  const Value& y = b.value(out(i));
  return b.expand(b.scalar(0, y.dtype), y.dims);
}

void GradBuilder::add_grad(size_t i, ValueId v) {
  if (!needs(i)) return;
  const Dims want = b.dims(in(i));
  const Dims have = b.dims(v);
  if (have != want) {
    const size_t extra = have.size() - want.size();
    std::vector<int64_t> axes;
    for (size_t d = 0; d < have.size(); ++d) {
      if (d < extra || (want[d - extra] == 1 && have[d] != 1)) axes.push_back(static_cast<int64_t>(d));
    }
    v = b.reshape(b.reduce_sum(v, axes, true), want);
  }
  ad_.contribute(in(i), v);
}

std::vector<NodeId> gradient_blockers(const Graph& g, const std::vector<ValueId>& wrt,
                                      const std::vector<ValueId>& targets) {
  const std::vector<bool> wanted = downstream_of(g, wrt);
  std::vector<bool> upstream(static_cast<size_t>(g.n_values()), false);
  for (const ValueId v : targets) upstream[static_cast<size_t>(v.index)] = true;
  std::vector<NodeId> out;
  for (int32_t n = g.n_nodes(); n-- > 0;) {
    const Node& node = g.node(NodeId{n});
    const auto on = [&](const std::vector<bool>& set, const std::vector<ValueId>& vs) {
      return std::any_of(vs.begin(), vs.end(), [&](ValueId v) { return v && set[static_cast<size_t>(v.index)]; });
    };
    if (!on(upstream, node.out)) continue;
    for (const ValueId v : node.in) {
      if (v) upstream[static_cast<size_t>(v.index)] = true;
    }
    if (on(wanted, node.in) && !node.op->gradient && !node.op->not_differentiable) out.push_back(NodeId{n});
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace amp
