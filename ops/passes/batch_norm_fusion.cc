// Fuses batch normalization with Relu or Clip, and their gradients (batch_norm_fusion.h). Only pairs without other
// readers of the normalized value are fused.

#include "ops/passes/batch_norm_fusion.h"

#include <limits>
#include <map>
#include <optional>

#include "backend/cpu/norm/batch_norm.h"
#include "graph/copier.h"
#include "graph/passes.h"

namespace amp {

namespace {

// A batch normalization with its activation, and the gradients of both if the graph has them.
struct Activated {
  NodeId norm, activation, activation_grad, norm_grad;
};

struct Limits {
  double least, most;
};
Limits limits(const Node& clip) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {clip.attrs.f("min", -kInfinity), clip.attrs.f("max", kInfinity)};
}

class Finder {
 public:
  explicit Finder(const Graph& g) : g_(g), readers_(static_cast<size_t>(g.n_values())) {
    for (int32_t n = 0; n < g.n_nodes(); ++n) {
      for (const ValueId v : g.node(NodeId{n}).in) {
        if (v) readers_[static_cast<size_t>(v.index)].push_back(NodeId{n});
      }
    }
    for (const auto& o : g.outputs) readers_[static_cast<size_t>(o.value.index)].push_back(NodeId{});
    for (const auto& p : g.param_grads) readers_[static_cast<size_t>(p.value.index)].push_back(NodeId{});
  }

  std::optional<Activated> behind(NodeId id) const {
    const Node& norm = g_.node(id);
    if (!named(norm, "BatchNorm") && !named(norm, "BatchNormTrain")) return {};
    Activated a{id, {}, {}, {}};
    for (const NodeId reader : readers(norm.out[0])) {
      if (!reader) return {};
      const Node& node = g_.node(reader);
      NodeId& place = named(node, "Relu") || named(node, "Clip") ? a.activation : a.activation_grad;
      if (place || (&place == &a.activation_grad && !named(node, "ClipGrad"))) return {};
      place = reader;
    }
    if (!a.activation) return {};
    const ValueId y = g_.node(a.activation).out[0];
    const Node& activation = g_.node(a.activation);
    if (!stays(norm.out[0], activation) || !stays(y, activation)) return {};
    for (const NodeId reader : readers(y)) {
      if (reader && named(g_.node(reader), "ReluGrad") && g_.node(reader).in[0] == y) a.activation_grad = reader;
    }
    if (a.activation_grad && !find_gradient(norm, a, activation)) return {};
    return a;
  }

 private:
  bool named(const Node& n, const char* op) const { return n.op->name == op; }
  // Returns whether rounding v before or after the activation gives the same bits. fp32 is not rounded. Rounding to
  // bf16 keeps the sign and does not cross a limit of Clip that bf16 represents exactly. fp16 turns small numbers into
  // zeros.
  bool stays(ValueId v, const Node& activation) const {
    const DType t = g_.value(v).dtype;
    if (t != DType::bf16) return t == DType::f32;
    const Limits of = limits(activation);
    return named(activation, "Relu") || (exact(of.least) && exact(of.most));
  }
  static bool exact(double limit) {
    return static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(limit)))) == limit;
  }
  const std::vector<NodeId>& readers(ValueId v) const { return readers_[static_cast<size_t>(v.index)]; }

  // Sets a.norm_grad. Returns whether only the gradient of the same normalization reads the activation's gradient.
  bool find_gradient(const Node& norm, Activated& a, const Node& activation) const {
    const ValueId dy = g_.node(a.activation_grad).out[0];
    if (readers(dy).size() != 1 || !readers(dy)[0] || !stays(dy, activation) ||
        !stays(g_.node(a.activation_grad).in[1], activation))
      return false;
    a.norm_grad = readers(dy)[0];
    const Node& grad = g_.node(a.norm_grad);
    const bool train = named(norm, "BatchNormTrain");
    const ValueId mean = train ? norm.out[1] : norm.in[3], var = train ? norm.out[2] : norm.in[4];
    return named(grad, "BatchNormGrad") && grad.in == std::vector<ValueId>{dy, norm.in[0], norm.in[1], mean, var};
  }

  const Graph& g_;
  std::vector<std::vector<NodeId>> readers_;
};

// Returns the attributes of `norm` with those of the activation added. type: the type of the activation's input.
Attrs with_activation(const Node& norm, const Node& activation, DType type) {
  Attrs a = norm.attrs;
  const bool relu = activation.op->name == "Relu";
  a.set("activation", static_cast<int64_t>(relu ? NormActivation::relu : NormActivation::clip));
  if (relu) return a;
  a.set("min", limits(activation).least);
  a.set("max", limits(activation).most);
  if (type == DType::bf16) a.set("cut_rounded", 1);
  return a;
}

}  // namespace

Graph activate_batch_norms(const Graph& g) {
  const Finder finder(g);
  std::map<NodeId, Activated> at;  // node of the norm, and node of its gradient -> what replaces it
  std::vector<bool> gone(static_cast<size_t>(g.n_nodes()), false);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const auto found = finder.behind(NodeId{n});
    if (!found) continue;
    at[found->norm] = *found;
    gone[static_cast<size_t>(found->activation.index)] = true;
    if (!found->norm_grad) continue;
    at[found->norm_grad] = *found;
    gone[static_cast<size_t>(found->activation_grad.index)] = true;
  }
  if (at.empty()) return g;
  Copier copy(g);
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    Node node = g.node(NodeId{n});
    const auto found = at.find(NodeId{n});
    if (found == at.end()) {
      if (!gone[static_cast<size_t>(n)]) copy.node(NodeId{n}, types_of(g, node.out));
      continue;
    }
    const Activated& a = found->second;
    node.attrs = with_activation(node, g.node(a.activation), g.value(g.node(a.norm).out[0]).dtype);
    if (a.norm.index == n) {
      node.out[0] = g.node(a.activation).out[0];
    } else {
      node.in[0] = g.node(a.activation_grad).in[1];
      node.in.push_back(g.node(a.norm).in[2]);  // adds the bias
    }
    copy.add(node, node.in, node.out, types_of(g, node.out));
  }
  copy.finish();
  return prune(copy.out);
}

}  // namespace amp
