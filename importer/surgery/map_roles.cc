// Determines the purpose of each linear map from the nodes before and after it. Reach walks from a map's output to the
// next maps. On the way it records inputs of attention (an operator, or unfused as MatMul, Softmax, MatMul), activation
// functions, products with another branch (gates) and graph outputs. It stops at residual sums. Names are used only
// where the graph does not show the purpose.
#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"
#include "importer/discover/low_rank_pairs.h"
#include "importer/surgery/linear_maps.h"

namespace amp {
namespace {

// The operators and maps that a walk from a value reaches, up to the next linear maps.
struct Reach {
  bool q = false, k = false, v = false;
  bool activation = false, gate = false, residual = false, output = false;
  std::set<int> maps;  // the linear maps that read the value or a result of the operators
};

bool is_attention(const SourceNode& n) {
  if (n.domain.empty()) return n.op == "Attention";
  return n.domain == "com.microsoft" &&
         one_of(n.op, {"GroupQueryAttention", "MultiHeadAttention", "PackedMultiHeadAttention", "PagedAttention",
                       "SparseAttention", "DecoderMaskedMultiHeadAttention"});
}

bool is_activation(const std::string& op) {
  return one_of(op, {"Relu",     "Gelu",    "FastGelu",  "QuickGelu",   "BiasGelu",
                     "Erf",      "Sigmoid", "Tanh",      "Silu",        "Swish",
                     "Elu",      "Selu",    "Celu",      "LeakyRelu",   "PRelu",
                     "Softplus", "Mish",    "HardSwish", "HardSigmoid", "ThresholdedRelu",
                     "SwiGLU"});
}

bool reads_shape(const std::string& op) { return op == "Shape" || op == "Size"; }

bool is_norm(const std::string& op) {
  return one_of(op, {"LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization"});
}

// True for operators that move or scale the elements of input 0.
bool is_light(const std::string& op) {
  return one_of(op, {"Reshape", "Transpose", "Cast", "Identity", "Squeeze", "Unsqueeze", "Flatten", "Dropout", "Slice",
                     "Split", "Concat", "Expand", "Mul", "Div"});
}

class Roles {
 public:
  Roles(const SourceGraph& g, const std::vector<LinearMap>& maps)
      : g_(g),
        consumers_(g.consumers()),
        map_of_(g.nodes.size(), -1),
        adds_adapter_(find_low_rank_pairs(g).sums),
        active_(g.values.size()),
        from_softmax_(active_),
        to_softmax_(active_),
        from_attention_(active_),
        from_activation_(active_) {
    for (size_t m = 0; m < maps.size(); ++m) {
      for (const LinearMap::Use& u : maps[m].uses) map_of_[static_cast<size_t>(u.node)] = static_cast<int>(m);
    }
    for (const int v : g.inputs) active_[static_cast<size_t>(v)] = is_float(g.value(v).dtype);
    for (size_t n = g.nodes.size(); n-- > 0;) lead_to_softmax(g.nodes[n]);
    for (size_t n = 0; n < g.nodes.size(); ++n) forward(static_cast<int>(n));
  }

  Reach walk(int value) const;
  bool fed_by_attention(int v) const { return v >= 0 && from_attention_[static_cast<size_t>(v)]; }
  bool fed_by_activation(int v) const { return v >= 0 && from_activation_[static_cast<size_t>(v)]; }
  std::vector<LinearMap::Part> parts(const LinearMap& m) const;

 private:
  bool marked(const std::vector<char>& marks, const SourceNode& n, size_t input) const {
    return input < n.inputs.size() && n.inputs[input] >= 0 && marks[static_cast<size_t>(n.inputs[input])];
  }
  bool any(const std::vector<char>& marks, const SourceNode& n) const {
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (marked(marks, n, i)) return true;
    }
    return false;
  }
  void mark(std::vector<char>& marks, const SourceNode& n) {
    for (const int v : n.outputs) {
      if (v >= 0) marks[static_cast<size_t>(v)] = 1;
    }
  }
  // True for a product of two activations.
  bool is_dynamic(const SourceNode& n) const {
    return one_of(n.op, {"MatMul", "FusedMatMul", "Einsum", "Gemm"}) && n.inputs.size() >= 2 && marked(active_, n, 0) &&
           marked(active_, n, 1);
  }

  void lead_to_softmax(const SourceNode& n) {
    const bool passes = is_light(n.op) || one_of(n.op, {"Add", "Sub", "Where", "Tanh", "Clip", "Min", "Max"});
    if (n.op != "Softmax" && !(passes && any_output(to_softmax_, n))) return;
    for (const int v : n.inputs) {
      if (v >= 0) to_softmax_[static_cast<size_t>(v)] = 1;
    }
  }
  bool any_output(const std::vector<char>& marks, const SourceNode& n) const {
    return std::any_of(n.outputs.begin(), n.outputs.end(),
                       [&](int v) { return v >= 0 && marks[static_cast<size_t>(v)]; });
  }

  void forward(int node) {
    const SourceNode& n = g_.nodes[static_cast<size_t>(node)];
    const bool map = map_of_[static_cast<size_t>(node)] >= 0;
    if (reads_shape(n.op)) return;
    if (map || any(active_, n) || n.op == "EmbedLayerNormalization") mark(active_, n);
    if (n.op == "Softmax" || ((is_light(n.op) || n.op == "Where") && any(from_softmax_, n))) mark(from_softmax_, n);
    const bool contextual = is_attention(n) || (n.domain == "com.microsoft" && n.op == "Attention") ||
                            (is_dynamic(n) && any(from_softmax_, n));
    if (!map && (contextual || ((is_light(n.op) || is_norm(n.op)) && any(from_attention_, n))))
      mark(from_attention_, n);
    const bool constant_sum = one_of(n.op, {"Add", "Sub"}) && !(marked(active_, n, 0) && marked(active_, n, 1));
    if (!map &&
        (is_activation(n.op) || ((is_light(n.op) || is_norm(n.op) || constant_sum) && any(from_activation_, n))))
      mark(from_activation_, n);
  }

  // Adds the effect of the node on a reached input to r. Returns whether the search continues at the node's outputs.
  bool visit(int node, const std::set<int>& reached, Reach& r) const;
  bool cut(const LinearMap& m, std::vector<int64_t>& sizes, std::vector<int>& values) const;

  const SourceGraph& g_;
  const std::vector<std::vector<int>> consumers_;
  std::vector<int> map_of_;  // indexed by node: its map; -1: none
  // Indexed by node: 1 for the Add of an adapter in the file. The map's output continues after it.
  std::vector<char> adds_adapter_;
  // Properties of each value. active: it depends on a map's output or on a floating-point graph input. from_softmax,
  // to_softmax: it comes from a Softmax, or leads to one, through operators that only move or scale elements.
  // from_attention, from_activation: it comes from attention or from an activation function through such operators.
  std::vector<char> active_, from_softmax_, to_softmax_, from_attention_, from_activation_;
};

bool Roles::visit(int node, const std::set<int>& reached, Reach& r) const {
  const SourceNode& n = g_.nodes[static_cast<size_t>(node)];
  const auto in = [&](size_t i) { return i < n.inputs.size() && reached.count(n.inputs[i]) > 0; };
  if (const int m = map_of_[static_cast<size_t>(node)]; m >= 0) {
    r.maps.insert(m);
    return false;
  }
  if (is_attention(n)) {
    const bool packed = n.inputs.size() < 2 || n.inputs[1] < 0;
    r.q |= in(0);
    r.k |= in(1) || (packed && in(0));
    r.v |= in(2) || (packed && in(0));
    return false;
  }
  if (is_dynamic(n)) {
    const bool scores = any_output(to_softmax_, n), weighted = marked(from_softmax_, n, 0);
    r.q |= scores && in(0);
    r.k |= scores && in(1);
    r.v |= weighted && in(1);
    return false;
  }
  if (reads_shape(n.op)) return false;
  bool other = false;  // another branch is an operand, too
  for (size_t i = 0; i < n.inputs.size(); ++i) other |= !in(i) && marked(active_, n, i);
  if ((one_of(n.op, {"Add", "Sub", "Sum"}) && other && !adds_adapter_[static_cast<size_t>(node)]) ||
      n.op.starts_with("Skip")) {
    r.residual = true;
    return false;
  }
  r.gate |= n.op == "Mul" && other;
  r.activation |= is_activation(n.op);
  return true;
}

Reach Roles::walk(int value) const {
  Reach r;
  std::set<int> reached = {value},
                open(consumers_[static_cast<size_t>(value)].begin(), consumers_[static_cast<size_t>(value)].end());
  const auto is_output = [&](int v) { return std::find(g_.outputs.begin(), g_.outputs.end(), v) != g_.outputs.end(); };
  r.output = is_output(value);
  while (!open.empty()) {  // in topological order
    const int node = *open.begin();
    open.erase(open.begin());
    if (!visit(node, reached, r)) continue;
    for (const int v : g_.nodes[static_cast<size_t>(node)].outputs) {
      if (v < 0 || !reached.insert(v).second) continue;
      r.output |= is_output(v);
      open.insert(consumers_[static_cast<size_t>(v)].begin(), consumers_[static_cast<size_t>(v)].end());
    }
  }
  return r;
}

// Finds an operator that divides the output of m: attention with packed q, k and v, or Split. values: the results for
// the parts, for walk(); empty for attention.
bool Roles::cut(const LinearMap& m, std::vector<int64_t>& sizes, std::vector<int>& values) const {
  if (!m.is_product() || m.uses.size() != 1) return false;
  int v = g_.nodes[static_cast<size_t>(m.uses.front().node)].outputs.at(0);
  while (consumers_[static_cast<size_t>(v)].size() == 1) {
    const int reader = consumers_[static_cast<size_t>(v)].front();
    const SourceNode& n = g_.nodes[static_cast<size_t>(reader)];
    if (n.op == "GroupQueryAttention" && n.inputs.at(0) == v && (n.inputs.size() < 2 || n.inputs[1] < 0)) {
      const int64_t heads = n.attrs.i("num_heads", 0), kv = n.attrs.i("kv_num_heads", heads);
      if (heads < 1 || kv < 1 || m.out % (heads + 2 * kv) != 0) return false;
      const int64_t width = m.out / (heads + 2 * kv);
      sizes = {heads * width, kv * width, kv * width};
      return true;
    }
    if (n.op == "Split" && n.inputs.at(0) == v) {
      const bool stored = n.inputs.size() > 1 && n.inputs[1] >= 0;
      if (stored && !g_.value(n.inputs[1]).data) return false;
      sizes = stored ? g_.value(n.inputs[1]).data.to_ints() : n.attrs.ints("split");
      const auto count = static_cast<int64_t>(n.outputs.size());
      const SourceValue& x = g_.value(v);
      const int64_t axis = n.attrs.i("axis", 0), last = x.rank_known ? static_cast<int64_t>(x.dims.size()) - 1 : -1;
      if (sizes.empty() && axis != -1 && axis != last) return false;
      if (sizes.empty() && m.out % count == 0) sizes.assign(n.outputs.size(), m.out / count);
      values = n.outputs;
      return true;
    }
    const bool bias = n.op == "Add" && !(marked(active_, n, 0) && marked(active_, n, 1));
    if (!bias && !adds_adapter_[static_cast<size_t>(reader)] && !one_of(n.op, {"Identity", "Cast", "Reshape"}))
      return false;
    v = n.outputs.at(0);
  }
  return false;
}

std::vector<LinearMap::Part> Roles::parts(const LinearMap& m) const {
  std::vector<int64_t> sizes;
  std::vector<int> values;
  if (!cut(m, sizes, values)) return {};
  std::vector<LinearMap::Part> out;
  const std::array<const char*, 3> packed = {"q", "k", "v"};
  std::set<std::string> seen;
  int64_t first = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::string role = values.empty() ? packed.at(i) : "";
    if (!values.empty() && i < values.size() && values[i] >= 0) {
      const Reach r = walk(values[i]);
      if (r.q + r.k + r.v == 1) role = r.q ? "q" : r.k ? "k" : "v";
      if (r.gate && !r.q && !r.k && !r.v) role = r.activation ? "gate" : "up";
    }
    if (role.empty() || !seen.insert(role).second) return {};
    out.push_back({role, first, sizes[i]});
    first += sizes[i];
  }
  return first == m.out && out.size() > 1 ? out : std::vector<LinearMap::Part>{};
}

// Returns the role that a module's name indicates in common libraries, for maps whose role the graph does not show.
std::string role_by_name(const std::string& name) {
  struct Known {
    const char* role;
    std::initializer_list<std::string_view> names;
  };
  static const Known known[] = {
      {"q", {"q_proj", "query", "q_lin", "to_q", "wq"}},
      {"k", {"k_proj", "key", "k_lin", "to_k", "wk"}},
      {"v", {"v_proj", "value", "v_lin", "to_v", "wv"}},
      {"qkv", {"qkv", "qkv_proj", "query_key_value", "c_attn", "Wqkv", "in_proj"}},
      {"o", {"o_proj", "out_proj", "out_lin", "to_out"}},
      {"gate", {"gate_proj", "w1"}},
      {"gate_up", {"gate_up_proj"}},
      {"up", {"up_proj", "fc1", "c_fc", "lin1", "wi", "dense_h_to_4h", "w3"}},
      {"down", {"down_proj", "fc2", "lin2", "wo", "dense_4h_to_h", "w2"}},
  };
  std::string dotted = name;
  std::replace(dotted.begin(), dotted.end(), '/', '.');
  for (const std::string& part : split(dotted, '.')) {
    for (const Known& k : known) {
      if (std::find(k.names.begin(), k.names.end(), part) != k.names.end()) return k.role;
    }
  }
  return {};
}

void merge(Reach& all, const Reach& r) {
  all.q |= r.q;
  all.k |= r.k;
  all.v |= r.v;
  all.activation |= r.activation;
  all.gate |= r.gate;
  all.residual |= r.residual;
  all.output |= r.output;
  all.maps.insert(r.maps.begin(), r.maps.end());
}

// Returns the role of a product, except for the maps before "down".
std::string first_role(const Reach& r, bool after_attention, bool after_activation) {
  if (r.q + r.k + r.v > 1) return "qkv";
  if (r.q || r.k || r.v) return r.q ? "q" : r.k ? "k" : "v";
  if (after_attention) return "o";
  if (r.output && !r.residual) return "head";
  return after_activation && r.residual ? "down" : "";
}

}  // namespace

void assign_roles(const SourceGraph& g, std::vector<LinearMap>& maps) {
  const Roles roles(g, maps);
  std::vector<Reach> reach(maps.size());
  for (size_t i = 0; i < maps.size(); ++i) {
    LinearMap& m = maps[i];
    m.role = m.kind == MapKind::table ? "embedding" : m.kind == MapKind::convolution ? "conv" : "";
    if (!m.is_product()) continue;
    bool after_attention = false, after_activation = false;
    for (const LinearMap::Use& u : m.uses) {
      const SourceNode& n = g.nodes[static_cast<size_t>(u.node)];
      merge(reach[i], roles.walk(n.outputs[0]));
      after_attention |= roles.fed_by_attention(n.inputs[0]);
      after_activation |= roles.fed_by_activation(n.inputs[0]);
    }
    m.role = first_role(reach[i], after_attention, after_activation);
    m.parts = roles.parts(m);
  }
  for (size_t i = 0; i < maps.size(); ++i) {
    LinearMap& m = maps[i];
    if (!m.role.empty()) continue;
    const auto is_down = [&](int next) { return maps[static_cast<size_t>(next)].role == "down"; };
    if ((reach[i].activation || reach[i].gate) && std::any_of(reach[i].maps.begin(), reach[i].maps.end(), is_down))
      m.role = m.parts.size() == 2 ? "gate_up" : reach[i].activation && reach[i].gate ? "gate" : "up";
    if (!m.role.empty()) continue;
    m.role = role_by_name(m.name);
    m.by_name = !m.role.empty();
    if (!m.by_name) m.role = "other";
  }
}

bool role_in(const std::string& role, const std::string& group) {
  if (group == "all-linear") return !one_of(role, {"head", "embedding", "conv"});
  if (group == "attention") return one_of(role, {"q", "k", "v", "qkv", "o"});
  if (group == "mlp") return one_of(role, {"gate", "up", "gate_up", "down"});
  if (group == "qkv") return one_of(role, {"q", "k", "v", "qkv"});
  return role == group;
}

bool is_role(const std::string& word) {
  return one_of(word, {"all-linear", "attention", "mlp", "qkv", "q", "k", "v", "o", "gate", "up", "gate_up", "down",
                       "head", "embedding", "conv", "other"});
}

}  // namespace amp
