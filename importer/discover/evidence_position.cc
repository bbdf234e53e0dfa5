// Evidence from positions: the operator that reads a tensor, whether a gradient reaches it, and patterns of frozen
// norms, rotary frequencies and standardized inputs. Patterns of several nodes are in evidence_role.cc.
#include "importer/discover/evidence_position.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/discover/fixed_pattern.h"
#include "importer/discover/formula.h"
#include "importer/quantized/fake_quant.h"

namespace amp {
namespace {

using Weights = std::array<double, 4>;  // indexed by Naming: module, folded, made_up, none

// Returns the node that computes the other operand of a two-operand node, or null. Skips casts and views.
const SourceNode* other_producer(const Use& u) {
  const SourceNode& n = u.at();
  if (n.inputs.size() != 2) return nullptr;
  int other = n.inputs[u.site_input == 0 ? 1 : 0];
  while (other >= 0) {
    const int p = u.graph->values[static_cast<size_t>(other)].producer;
    if (p < 0) return nullptr;
    const SourceNode& made = u.graph->nodes[static_cast<size_t>(p)];
    if (!one_of(made.op, {"Identity", "Cast", "Reshape", "Transpose", "Squeeze", "Unsqueeze"}) || made.inputs.empty())
      return &made;
    other = made.inputs[0];
  }
  return nullptr;
}

// True if n is a normalization, or divides by the root of a mean or sum as in x / sqrt(mean(x * x) + eps).
bool normalized(const SourceGraph& g, const SourceNode* n) {
  if (!n) return false;
  if (one_of(n->op, {"InstanceNormalization", "MeanVarianceNormalization", "LpNormalization"})) return true;
  if (n->op != "Div" && n->op != "Mul") return false;
  return std::any_of(n->inputs.begin(), n->inputs.end(), [&](int v) {
    bool root = false;
    for (int steps = 0; steps < 10 && v >= 0; ++steps) {
      const int p = g.values[static_cast<size_t>(v)].producer;
      if (p < 0) return false;
      const SourceNode& made = g.nodes[static_cast<size_t>(p)];
      if (made.op == "ReduceL2") return true;
      if (one_of(made.op, {"ReduceMean", "ReduceSum", "ReduceSumSquare"})) return root;
      root = root || made.op == "Sqrt" || made.op == "Pow";
      if (!one_of(made.op, {"Sqrt", "Pow", "Reciprocal", "Add", "Max", "Clip", "Cast", "Identity", "Div", "Expand"}))
        return false;
      const auto computed = std::find_if(made.inputs.begin(), made.inputs.end(), [&](int i) {
        return i >= 0 && g.values[static_cast<size_t>(i)].producer >= 0;
      });
      v = computed == made.inputs.end() ? -1 : *computed;
    }
    return false;
  });
}

// True for a scale or zero point of quantized values, also for the scales that a Mul of dynamic quantization reads.
bool quantizer_parameter(const Use& u) {
  if (quantizer_input(u.at(), u.site_input)) return true;
  if (u.at().op != "Mul") return false;
  const SourceNode* p = other_producer(u);
  return p && one_of(p->op, {"DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"});
}

bool monotone(const HostTensor& data) {
  const std::vector<double> x = data.to_doubles();
  return std::is_sorted(x.begin(), x.end()) || std::is_sorted(x.rbegin(), x.rend());
}

bool per_channel(const Dims& d) { return d.size() == 4 && d[0] == 1 && d[1] > 1 && d[2] == 1 && d[3] == 1; }

}  // namespace

// True if the use is a Mul after a normalization, or an Add after the normalization or after that Mul.
bool after_norm(const Use& u) {
  const SourceNode* p = other_producer(u);
  if (u.at().op == "Mul") return normalized(*u.graph, p);
  if (u.at().op != "Add" || !p) return false;
  if (normalized(*u.graph, p)) return true;
  if (p->op != "Mul" || p->inputs.size() != 2) return false;
  return std::any_of(p->inputs.begin(), p->inputs.end(), [&](int v) {
    const int q = v < 0 ? -1 : u.graph->values[static_cast<size_t>(v)].producer;
    return q >= 0 && normalized(*u.graph, &u.graph->nodes[static_cast<size_t>(q)]);
  });
}

bool after_product(const Use& u) {
  if (u.at().op != "Add") return false;
  const SourceNode* p = other_producer(u);
  return p && one_of(p->op, {"MatMul", "Gemm", "Conv", "ConvTranspose"});
}

namespace {

Evidence position(const Use& u, Naming naming) {
  const SourceNode& n = u.at();
  const char* role = weight_role(n, u.site_input);
  const auto weigh = [&](const std::string& text, const Weights& w) {
    return Evidence{text, w[static_cast<size_t>(naming)]};
  };
  const std::string where = cat("input ", u.site_input, " of ", printable(n.op));
  if (!role) return weigh(cat(where, ", where few weights are"), {-1, -0.5, -3, -4});
  if (after_product(u)) return weigh("added to a product", {2, 3, 4, 5});
  if (after_norm(u)) return weigh("scale or shift of an unfused norm", {2, 3, 4, 5});
  if (one_of(n.op, {"Gather", "GatherND", "GatherElements"})) return weigh("a table that is looked up", {1, 2, 3, 4});
  if (one_of(n.op, {"Add", "Sub", "Mul", "Sum", "Einsum"})) return weigh(cat("operand of ", n.op), {0, 0, 0, 2.5});
  return weigh(cat(where, ", a weight's position"), {2, 3, 4, 5});
}

Evidence one_element(const Use& u, const HostTensor& data, Naming naming) {
  // A module's bias has at least one dim. Converters fill the bias input of a Gemm with a scalar.
  if (data.rank() == 0 && u.at().op == "Gemm" && u.site_input == 2) return {"a number in the place of a bias", -9};
  if (from_formula(data)) return {"one element", Weights{-0.5, -1, -5, -7}[static_cast<size_t>(naming)]};
  return {"one element, a number that no formula gives", Weights{0.5, 0, -1, -2.5}[static_cast<size_t>(naming)]};
}

std::string not_a_weight(const Use& u) {
  const SourceNode& n = u.at();
  if (n.op != "BatchNormalization" || u.site_input < 3) return "";
  return u.site_input == 3 ? "running mean" : "running variance";
}

}  // namespace

PositionEvidence::PositionEvidence(const SourceGraph& g)
    : g_(g), consumers_(g.consumers()), live_(live_nodes(g)), scopes_(g), pairs_(find_low_rank_pairs(g)) {
  find_data();
  find_reached();
  find_input_like();
  find_frozen_norms();
}

const Use& PositionEvidence::main_use(const std::vector<Use>& uses) {
  const auto it =
      std::find_if(uses.begin(), uses.end(), [](const Use& u) { return weight_role(u.at(), u.site_input) != nullptr; });
  return it == uses.end() ? uses.front() : *it;
}

std::string PositionEvidence::place(const Use& u) {
  const SourceNode& n = u.at();
  return cat("input ", u.site_input, " of ", printable(n.op), " '", printable(n.name), "'",
             u.around.empty() ? "" : " inside " + u.around, u.views.empty() ? "" : " (through " + u.views + ")");
}

std::vector<Evidence> PositionEvidence::weigh(int v, const std::vector<Use>& uses, Naming naming) const {
  const HostTensor& data = value(v).data;
  const auto all = [&](const auto& holds) { return std::all_of(uses.begin(), uses.end(), holds); };
  const Use& main = main_use(uses);
  std::vector<Evidence> out;
  // These positions exclude a weight, so no other evidence is collected.
  if (const std::string statistic = not_a_weight(main); !statistic.empty()) return {{statistic, -12}};
  if (all([](const Use& u) { return blocks_gradient(u.at(), u.site_input); })) return {{"no gradient reaches it", -12}};
  if (all([](const Use& u) { return u.at().attrs.has(kQuantizerData) || quantizer_parameter(u); }))
    return {{"scale or zero point of a quantizer", -12}};
  if (all([](const Use& u) { return rotary_table(u.at(), u.site_input); }))
    return {{"cosines or sines of rotary positions", -12}};
  if (pairs_.scale[static_cast<size_t>(v)]) return {{"the scale of an adapter of low rank (alpha / r)", -12}};
  if (pairs_.zeros[static_cast<size_t>(v)]) return {{"zeros beside the part of a map that an adapter changes", -12}};
  out.push_back(position(main, naming));
  // Unstructured values may be a learned width or temperature, so a position without a weight's role counts half.
  if (!weight_role(main.at(), main.site_input) && unstructured(data, 6)) out.back().weight /= 2;
  if (!reached_[static_cast<size_t>(v)])
    out.push_back({"it reaches outputs through indices and conditions only",
                   Weights{-5, -5, -5, -3}[static_cast<size_t>(naming)]});
  if (data.numel() == 1 && !one_element_weight(data, uses)) out.push_back(one_element(main, data, naming));
  if (const double w = outside_of_layers(v, main, naming); w != 0)
    out.push_back({"a larger module computes this itself: a raw parameter or a buffer", w});
  weigh_roles(v, uses, out);
  // Folded names are excluded: a folded BatchNormalization also leaves a learned bias next to a fixed matrix.
  if (naming == Naming::module && fixed_product(v, uses))
    out.push_back({"the bias of a product with a fixed matrix", -9});
  if (all([&](const Use& u) { return dummy_norm(u); }))
    out.push_back({"dummy scale or bias (ones, zeros) of a decomposed norm", -9});
  if (naming != Naming::module && frozen_norms_ && all([&](const Use& u) { return frozen_norm(u); }))
    out.push_back({"scale or shift of a frozen BatchNormalization: [1,C,1,1] after a convolution",
                   naming == Naming::folded ? -6.0 : -4.0});
  const bool zeros = data.rank() > 1 && after_product(main) && !per_channel(data.dims()) && all_equal(g_, v, 0);
  if ((naming == Naming::folded || naming == Naming::made_up) && zeros)
    out.push_back({"zeros with leading dims, added to a product", naming == Naming::folded ? -7.0 : -5.0});
  if (!changes_nothing(main.at().op, v) && all([&](const Use& u) { return standardizes(u, data); })) {
    const bool vector_shift = data.numel() > 1 && one_of(main.at().op, {"Sub", "Div"});
    // A single factor is assumed to be learned.
    const bool lone = naming == Naming::module && data.numel() == 1 && main.at().op == "Mul";
    const bool norm = all([&](const Use& u) { return input_norm(u, data); });
    out.push_back({norm ? "scales and shifts a graph input" : "standardizes a graph input",
                   lone || (norm && naming != Naming::none) ? -1
                   : norm                                   ? -3.5
                          : Weights{vector_shift ? -4.0 : -3.0, -5, -6, -8}[static_cast<size_t>(naming)]});
  }
  if (all([&](const Use& u) { return unstandardizes(u, data); }))
    out.push_back({"scale or shift after the last layer", Weights{-3, -4, -4, -5}[static_cast<size_t>(naming)]});
  return out;
}

// True for the Mul or Add after a Conv, with constants of [1,C,1,1] and no other readers of the intermediate values.
bool PositionEvidence::frozen_norm(const Use& u) const {
  if (u.graph != &g_ || (u.at().op != "Mul" && u.at().op != "Add")) return false;
  const auto only_user = [&](int v) -> const SourceNode* {
    const std::vector<int>& users = consumers_[static_cast<size_t>(v)];
    return users.size() == 1 ? &node(users[0]) : nullptr;
  };
  const auto constant_operand = [&](const SourceNode& n) {
    return n.inputs.size() == 2 && std::any_of(n.inputs.begin(), n.inputs.end(),
                                               [&](int i) { return constant(i) && per_channel(value(i).data.dims()); });
  };
  const SourceNode* before = other_producer(u);
  if (!before || !constant_operand(u.at())) return false;
  const SourceNode& scale = u.at().op == "Mul" ? u.at() : *before;
  if (scale.op != "Mul" || !constant_operand(scale) || scale.outputs.size() != 1 || scale.outputs[0] < 0) return false;
  const SourceNode* shift = only_user(scale.outputs[0]);
  if (!shift || shift->op != "Add" || !constant_operand(*shift)) return false;
  return std::any_of(scale.inputs.begin(), scale.inputs.end(), [&](int i) {
    const int p = i < 0 ? -1 : value(i).producer;
    return p >= 0 && node(p).op == "Conv" && only_user(i) == &scale;
  });
}

// Marks values that a gradient from a graph output reaches. If an output ends in ArgMax or a similar operator, the
// value before that operator counts as the output.
void PositionEvidence::find_reached() {
  reached_.assign(g_.values.size(), 0);
  std::vector<char> end(g_.values.size());  // indexed by value: 1 for an output or a value that is rearranged into one
  for (const int o : g_.outputs) reached_[static_cast<size_t>(o)] = end[static_cast<size_t>(o)] = 1;
  for (size_t k = g_.nodes.size(); k-- > 0;) {
    const SourceNode& n = g_.nodes[k];
    const auto any = [&](const std::vector<char>& of) {
      return std::any_of(n.outputs.begin(), n.outputs.end(),
                         [&](int o) { return o >= 0 && of[static_cast<size_t>(o)]; });
    };
    const bool reached = any(reached_), last = any(end);
    for (size_t i = 0; i < n.inputs.size() && reached; ++i) {
      if (n.inputs[i] < 0) continue;
      const auto v = static_cast<size_t>(n.inputs[i]);
      const int input = static_cast<int>(i);
      const bool statistic = n.op == "BatchNormalization" && g_.values[v].producer >= 0;
      if ((last && blocks_gradient(n, 0)) || statistic || !blocks_gradient(n, input)) reached_[v] = 1;
      if (last && is_view(n, input)) end[v] = 1;
    }
  }
}

// Sets frozen_norms_: true if every tensor of [1,C,1,1] in a Mul or Add may belong to a frozen BatchNormalization.
void PositionEvidence::find_frozen_norms() {
  frozen_norms_ = true;
  for (size_t v = 0; v < g_.values.size() && frozen_norms_; ++v) {
    const HostTensor& data = g_.values[v].data;
    if (!data || !is_float(data.dtype()) || !per_channel(data.dims())) continue;
    for (const int user : consumers_[v]) {
      const SourceNode& n = node(user);
      if (!live_[static_cast<size_t>(user)] || (n.op != "Mul" && n.op != "Add")) continue;
      const int input =
          static_cast<int>(std::find(n.inputs.begin(), n.inputs.end(), static_cast<int>(v)) - n.inputs.begin());
      if (!frozen_norm({user, input, false, "", "", &g_, user, input})) frozen_norms_ = false;
    }
  }
}

bool PositionEvidence::one_element_weight(const HostTensor& data, const std::vector<Use>& uses) const {
  return std::any_of(uses.begin(), uses.end(), [&](const Use& u) {
    const SourceNode& n = u.at();
    if (!weight_role(n, u.site_input)) return false;
    if (u.through_concat) return true;
    // A converter may pass a scalar as the bias input. The bias of a module has one dimension.
    if (one_of(n.op, {"Gemm", "Conv", "ConvTranspose"})) return u.site_input == 2 && data.rank() >= 1;
    return n.op == "MatMul" || n.op == "PRelu" || (data.rank() >= 1 && after_product(u));
  });
}

// True for fixed frequencies, which are multiplied by positions before a Cos or Sin. Positions are values that depend
// on no floating-point input and no embedding. Returns false for unordered frequencies that are multiplied element by
// element, because these were trained (state space models). An unordered matrix was sampled at random and is fixed.
bool PositionEvidence::rotary(int v) const {
  const HostTensor& data = value(v).data;
  if (data.numel() < 2) return false;
  const std::vector<int>& users = consumers_[static_cast<size_t>(v)];
  const bool elementwise = std::all_of(users.begin(), users.end(), [&](int n) { return node(n).op == "Mul"; });
  if (elementwise && unstructured(data, 6) && !monotone(data)) return false;
  std::set<int> seen = {v};
  std::vector<int> open = {v};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    for (const int user : consumers_[static_cast<size_t>(at)]) {
      const SourceNode& n = node(user);
      if (n.op == "Cos" || n.op == "Sin") return !elementwise || !unstructured(data, 6) || !becomes_kernel(n);
      const int input = static_cast<int>(std::find(n.inputs.begin(), n.inputs.end(), at) - n.inputs.begin());
      const bool product = one_of(n.op, {"MatMul", "Mul", "Einsum"});
      if (!product && !is_view(n, input)) continue;
      if (product && std::any_of(n.inputs.begin(), n.inputs.end(), [&](int i) { return i != at && carries_data(i); }))
        continue;
      for (const int o : n.outputs) {
        if (o >= 0 && seen.insert(o).second) open.push_back(o);
      }
    }
  }
  return false;
}

// True if the operator adds zeros or multiplies by ones, as a newly initialized layer does.
bool PositionEvidence::changes_nothing(const std::string& op, int v) const {
  if (value(v).data.numel() < 2) return false;
  return ((op == "Add" || op == "Sub") && all_equal(g_, v, 0)) || ((op == "Mul" || op == "Div") && all_equal(g_, v, 1));
}

// Marks values that depend on a floating-point graph input or on an embedding.
void PositionEvidence::find_data() {
  carries_data_.assign(g_.values.size(), 0);
  for (const int v : g_.inputs)
    carries_data_[static_cast<size_t>(v)] = !value(v).dtype_known || is_float(value(v).dtype);
  for (const SourceNode& n : g_.nodes) {  // in topological order
    if (n.op == "Shape" || n.op == "Size") continue;
    bool yes = reads_data(n);
    if (n.op == "Gather" && !n.inputs.empty() && constant(n.inputs[0])) {
      const HostTensor& table = value(n.inputs[0]).data;
      yes = yes || (is_float(table.dtype()) && table.rank() >= 2);
    }
    if (!yes) continue;
    for (const int o : n.outputs) {
      if (o >= 0) carries_data_[static_cast<size_t>(o)] = 1;
    }
  }
}

bool PositionEvidence::all_equal(const SourceGraph& g, int v, double want) const {
  while (v >= 0 && !g.values[static_cast<size_t>(v)].data) {
    const int p = g.values[static_cast<size_t>(v)].producer;
    if (p < 0) return false;
    const SourceNode& n = g.nodes[static_cast<size_t>(p)];
    if (n.inputs.empty() || !is_view(n, 0)) return false;
    v = n.inputs[0];
  }
  if (v < 0) return false;
  const std::vector<double> all = g.values[static_cast<size_t>(v)].data.to_doubles();
  return std::all_of(all.begin(), all.end(), [&](double x) { return x == want; });
}

// True for the scale or bias of a norm with scale 1 and bias 0, as a decomposed GroupNorm contains.
bool PositionEvidence::dummy_norm(const Use& u) const {
  const SourceNode& n = u.at();
  if (n.op == "InstanceNormalization" && n.inputs.size() == 3)
    return all_equal(*u.graph, n.inputs[1], 1) && all_equal(*u.graph, n.inputs[2], 0);
  // This BatchNormalization normalizes a weight, not data, so its scale and bias are not weights of a module.
  return n.op == "BatchNormalization" && n.inputs.size() == 5 && constant(n.inputs[0]) && u.graph == &g_ &&
         u.site_input > 0 && all_equal(g_, n.inputs[1], 1) && all_equal(g_, n.inputs[2], 0);
}

void PositionEvidence::find_input_like() {
  input_like_.assign(g_.values.size(), 0);
  for (const int v : g_.inputs) input_like_[static_cast<size_t>(v)] = 1;
  for (const SourceNode& n : g_.nodes) {
    if (n.inputs.empty() || n.outputs.empty() || n.outputs[0] < 0) continue;
    const auto like = [&](int v) { return v >= 0 && input_like_[static_cast<size_t>(v)]; };
    bool yes = n.op != "Concat" && is_view(n, 0) && like(n.inputs[0]);
    if (one_of(n.op, {"Sub", "Add", "Mul", "Div"}) && n.inputs.size() == 2) {
      const int held = like(n.inputs[0]) ? n.inputs[1] : n.inputs[0];
      yes = (like(n.inputs[0]) || like(n.inputs[1])) && constant(held);
      if (yes && (n.op == "Add" || n.op == "Mul")) {  // a matrix is more likely a position table
        const Dims& d = value(held).data.dims();
        yes = std::count_if(d.begin(), d.end(), [](int64_t k) { return k != 1; }) <= 1;
      }
    }
    if (yes) {
      for (const int o : n.outputs) {
        if (o >= 0) input_like_[static_cast<size_t>(o)] = 1;
      }
    }
  }
}

// True if the use may standardize a graph input. Add and Mul with a matrix are excluded: the matrix is more likely a
// position table. So is a Sub or Div with a matrix after an Unsqueeze, which computes distances to prototypes.
bool PositionEvidence::standardizes(const Use& u, const HostTensor& data) const {
  if (u.graph != &g_) return false;
  const SourceNode& n = u.at();
  if (!one_of(n.op, {"Sub", "Add", "Mul", "Div"}) || n.inputs.size() != 2) return false;
  const int other = n.inputs[u.site_input == 0 ? 1 : 0];
  if (other < 0 || !input_like_[static_cast<size_t>(other)]) return false;
  const auto wide = std::count_if(data.dims().begin(), data.dims().end(), [](int64_t d) { return d != 1; });
  if (wide <= 1) return true;
  const int p = value(other).producer;
  return (n.op == "Sub" || n.op == "Div") && (p < 0 || node(p).op != "Unsqueeze");
}

}  // namespace amp
