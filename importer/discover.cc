#include "importer/discover.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "graph/bind.h"
#include "importer/build.h"
#include "importer/fake_quant.h"

namespace amp {
namespace {

bool one_of(const std::string& op, std::initializer_list<const char*> set) {
  return std::any_of(set.begin(), set.end(), [&](const char* s) { return op == s; });
}

// The node passes this input on, rearranged.
bool is_view(const SourceNode& n, int input) {
  if (n.attrs.has(kQuantiserData)) return input == n.attrs.i(kQuantiserData, 0);
  if (!n.domain.empty()) return false;
  if (n.op == "Concat") return true;
  return input == 0 &&
         one_of(n.op, {"Identity", "Transpose", "Reshape", "Cast", "CastLike", "Squeeze", "Unsqueeze", "Flatten",
                       "Expand", "Slice", "Split", "Tile", "Pad", "QuantizeLinear", "DequantizeLinear"});
}

class Discovery {
 public:
  explicit Discovery(SourceGraph& g) : g_(g), consumers_(g.consumers()), live_(live_nodes(g)) { find_input_like(); }

  void run() {
    for (size_t v = 0; v < g_.values.size(); ++v) {
      if (g_.values[v].kind == SourceKind::constant) decide(static_cast<int>(v));
    }
  }

 private:
  SourceValue& value(int v) { return g_.values[static_cast<size_t>(v)]; }
  const SourceNode& node(int n) const { return g_.nodes[static_cast<size_t>(n)]; }
  bool constant(int v) const { return v >= 0 && g_.values[static_cast<size_t>(v)].data; }

  std::string place(const Use& u) const {
    const SourceNode& n = node(u.node);
    return cat("input ", u.input, " of ", printable(n.op), " '", printable(n.name), "'",
               u.views.empty() ? "" : " (through " + u.views + ")");
  }

  void decide(int v) {
    SourceValue& value = this->value(v);
    const HostTensor& data = value.data;
    if (!value.reason.empty()) return;  // decided when it was read
    if (!data) {
      value.reason = "constant: its type has no arithmetic";
      return;
    }
    if (!is_float(data.dtype())) {
      value.reason = cat("constant: ", name_of(data.dtype()));
      return;
    }
    const std::vector<Use> uses = uses_behind_views(g_, consumers_, live_, v);
    if (uses.empty()) {
      const bool output = std::find(g_.outputs.begin(), g_.outputs.end(), v) != g_.outputs.end();
      value.reason = output ? "constant: only a graph output" : "constant: no graph output depends on it";
      return;
    }
    const Use* position = nullptr;
    const char* role = nullptr;
    for (const Use& u : uses) {
      if (!position && (role = weight_role(node(u.node), u.input))) position = &u;
    }
    if (!position) {
      value.reason = cat("constant: ", not_a_weight(node(uses[0].node), uses[0].input), place(uses[0]));
    } else if (data.numel() == 1 && !one_element_weight(data, uses)) {
      value.reason = cat("constant: one element, ", place(*position));
    } else if (data.numel() == 0) {
      value.reason = cat("constant: no element, ", place(*position));
    } else if (rotary(v)) {
      value.reason = "constant: rotary frequencies, they reach Cos or Sin with positions only";
    } else if (std::all_of(uses.begin(), uses.end(), [&](const Use& u) { return dummy_norm(u); })) {
      value.reason = cat("constant: dummy scale or bias (ones, zeros) of a decomposed GroupNorm, ", place(*position));
    } else if (std::all_of(uses.begin(), uses.end(), [&](const Use& u) { return standardises(u, data); })) {
      value.reason = cat("constant: standardises a graph input, ", place(*position));
    } else if (std::all_of(uses.begin(), uses.end(),
                           [&](const Use& u) { return node(u.node).attrs.has(kQuantiserData); })) {
      value.reason = cat("constant: scale or zero point of a quantiser, ", place(*position));
    } else if (mask(uses, data)) {
      value.reason = cat("constant: a mask, ", place(*position));
    } else {
      value.kind = SourceKind::parameter;
      value.trainable = true;
      value.reason = cat(role, ": ", place(*position));
    }
  }

  static std::string not_a_weight(const SourceNode& n, int input) {
    if (n.op == "BatchNormalization" && input >= 3) return input == 3 ? "running mean, " : "running variance, ";
    return "";
  }

  bool one_element_weight(const HostTensor& data, const std::vector<Use>& uses) const {
    return std::any_of(uses.begin(), uses.end(), [&](const Use& u) {
      const SourceNode& n = node(u.node);
      if (!weight_role(n, u.input)) return false;
      if (u.through_concat) return true;
      if (one_of(n.op, {"Gemm", "Conv", "ConvTranspose"})) return u.input == 2;
      if (n.op == "MatMul" || n.op == "PRelu") return true;
      if (n.op != "Add" || data.rank() < 1) return false;
      const int other = n.inputs.at(u.input == 0 ? 1 : 0);
      const int producer = other < 0 ? -1 : g_.values[static_cast<size_t>(other)].producer;
      return producer >= 0 && one_of(node(producer).op, {"MatMul", "Gemm", "Conv", "ConvTranspose"});
    });
  }

  // Only a vector multiplied by something made of positions (no floating input, no embedding) and then Cos or Sin.
  bool rotary(int v) const {
    const HostTensor& data = g_.values[static_cast<size_t>(v)].data;
    const Dims& dims = data.dims();
    if (dims.empty() || *std::max_element(dims.begin(), dims.end()) != data.numel()) return false;
    std::set<int> seen = {v};
    std::vector<int> open = {v};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      for (const int user : consumers_[static_cast<size_t>(at)]) {
        const SourceNode& n = node(user);
        if (n.op == "Cos" || n.op == "Sin") return true;
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

  // Depends on a floating graph input or on an embedding.
  bool carries_data(int v) const {
    std::set<int> seen;
    std::vector<int> open = {v};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      if (at < 0 || !seen.insert(at).second) continue;
      const SourceValue& value = g_.values[static_cast<size_t>(at)];
      if (value.kind == SourceKind::input && (!value.dtype_known || is_float(value.dtype))) return true;
      if (value.producer < 0) continue;
      const SourceNode& n = node(value.producer);
      if (n.op == "Shape" || n.op == "Size") continue;
      if (n.op == "Gather" && constant(n.inputs.at(0))) {
        const HostTensor& table = g_.values[static_cast<size_t>(n.inputs[0])].data;
        if (is_float(table.dtype()) && table.rank() >= 2) return true;
      }
      open.insert(open.end(), n.inputs.begin(), n.inputs.end());
    }
    return false;
  }

  bool all_equal(int v, double want) const {
    while (v >= 0 && !constant(v)) {
      const int p = g_.values[static_cast<size_t>(v)].producer;
      if (p < 0 || !is_view(node(p), 0)) return false;
      v = node(p).inputs.at(0);
    }
    if (v < 0) return false;
    const std::vector<double> all = g_.values[static_cast<size_t>(v)].data.to_doubles();
    return std::all_of(all.begin(), all.end(), [&](double x) { return x == want; });
  }

  bool dummy_norm(const Use& u) const {
    const SourceNode& n = node(u.node);
    return n.op == "InstanceNormalization" && n.inputs.size() == 3 && all_equal(n.inputs[1], 1) &&
           all_equal(n.inputs[2], 0);
  }

  // Values that are a graph input, rearranged or standardised by constants.
  void find_input_like() {
    input_like_.assign(g_.values.size(), 0);
    for (const int v : g_.inputs) input_like_[static_cast<size_t>(v)] = 1;
    for (const SourceNode& n : g_.nodes) {
      if (n.inputs.empty() || n.outputs.empty() || n.outputs[0] < 0) continue;
      const auto like = [&](int v) { return v >= 0 && input_like_[static_cast<size_t>(v)]; };
      bool yes = n.op != "Concat" && is_view(n, 0) && like(n.inputs[0]);
      if (one_of(n.op, {"Sub", "Add", "Mul", "Div"}) && n.inputs.size() == 2) {
        yes = (like(n.inputs[0]) && constant(n.inputs[1])) || (constant(n.inputs[0]) && like(n.inputs[1]));
      }
      if (yes) {
        for (const int o : n.outputs) {
          if (o >= 0) input_like_[static_cast<size_t>(o)] = 1;
        }
      }
    }
  }

  // Add and Mul of a whole matrix is rather a position table, so there only vectors count.
  bool standardises(const Use& u, const HostTensor& data) const {
    const SourceNode& n = node(u.node);
    if (!one_of(n.op, {"Sub", "Add", "Mul", "Div"}) || n.inputs.size() != 2) return false;
    const int other = n.inputs[u.input == 0 ? 1 : 0];
    if (other < 0 || !input_like_[static_cast<size_t>(other)]) return false;
    const auto wide = std::count_if(data.dims().begin(), data.dims().end(), [](int64_t d) { return d != 1; });
    return n.op == "Sub" || n.op == "Div" || wide <= 1;
  }

  bool mask(const std::vector<Use>& uses, const HostTensor& data) const {
    const Dims& d = data.dims();
    if (d.size() < 2 || d[d.size() - 1] != d[d.size() - 2] || data.numel() < 2) return false;
    if (!std::all_of(uses.begin(), uses.end(), [&](const Use& u) {
          return one_of(node(u.node).op, {"Add", "Sub", "Mul"});
        })) {
      return false;
    }
    std::optional<double> other;
    bool zero = false;
    for (const double x : data.to_doubles()) {
      if (x == 0) {
        zero = true;
      } else if (other && *other != x) {
        return false;
      } else {
        other = x;
      }
    }
    return zero && other && (*other == 1 || *other <= -1e4);
  }

  SourceGraph& g_;
  const std::vector<std::vector<int>> consumers_;
  const std::vector<char> live_;
  std::vector<char> input_like_;
};

}  // namespace

namespace {
// Operators that only optimised files carry.
const char* contrib_role(const std::string& op, int input) {
  const auto role = [&](int weight, int bias) { return input == weight ? "weight" : input == bias ? "bias" : nullptr; };
  if (op == "FusedMatMul" || op == "TransposeMatMul") return input <= 1 ? "weight" : nullptr;
  if (op == "FusedGemm" || op == "GemmFastGelu") return input == 0 ? "weight" : role(1, 2);
  if (one_of(op, {"FusedConv", "LayerNormalization", "SimplifiedLayerNormalization", "Attention"})) return role(1, 2);
  if (one_of(op, {"BiasGelu", "FastGelu", "BiasAdd", "BiasDropout"})) return role(-1, 1);
  if (op == "MultiHeadAttention") return role(-1, 3);
  if (op == "GroupQueryAttention") return input == 11 || input == 14 || input == 15 ? "weight" : nullptr;
  if (op == "MatMulNBits") return role(-1, 5);
  if (op == "DynamicQuantizeMatMul") return role(-1, 4);
  if (op == "MatMulIntegerToFloat") return role(-1, 6);
  if (op == "QAttention") return role(-1, 2);
  if (op == "SkipLayerNormalization") return input == 4 ? "dense_bias" : role(2, 3);
  if (op == "SkipSimplifiedLayerNormalization") return role(2, 3);
  if (op == "EmbedLayerNormalization") return input >= 2 && input <= 4 ? "table" : role(5, 6);
  return nullptr;
}
}  // namespace

namespace {
// A captured value is a weight when it stands in a weight's position inside the branch or body.
const char* role_inside(const SourceNode& n, int input) {
  const auto& names = std::get<std::vector<std::string>>(n.attrs.items().at(kCaptures));
  const size_t first = n.inputs.size() - names.size();
  if (static_cast<size_t>(input) < first) return nullptr;
  const std::string& name = names[static_cast<size_t>(input) - first];
  for (const auto& [key, value] : n.attrs.items()) {
    const auto* body = std::get_if<std::shared_ptr<const SourceGraph>>(&value);
    const int inside = body ? (*body)->find(name) : -1;
    if (inside < 0) continue;
    for (const SourceNode& user : (*body)->nodes) {
      for (size_t i = 0; i < user.inputs.size(); ++i) {
        const char* role = user.inputs[i] == inside ? weight_role(user, static_cast<int>(i)) : nullptr;
        if (role) return role;
      }
    }
  }
  return nullptr;
}
}  // namespace

const char* weight_role(const SourceNode& n, int input) {
  if (n.attrs.has(kCaptures)) return role_inside(n, input);
  if (n.domain == "com.microsoft") return contrib_role(n.op, input);
  if (!n.domain.empty()) return nullptr;
  const std::string& op = n.op;
  if (op == "MatMul") return input <= 1 ? "weight" : nullptr;
  if (op == "Gemm") return input <= 1 ? "weight" : input == 2 ? "bias" : nullptr;
  if (op == "Conv" || op == "ConvTranspose") {
    return input == 1 || (input == 0 && op == "Conv") ? "weight" : input == 2 ? "bias" : nullptr;
  }
  if (one_of(op, {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "InstanceNormalization",
                  "GroupNormalization", "BatchNormalization"})) {
    return input == 1 ? "weight" : input == 2 ? "bias" : input == 0 && op == "LayerNormalization" ? "table" : nullptr;
  }
  if (op == "DeformConv") return input == 1 ? "weight" : input == 3 ? "bias" : nullptr;
  if (op == "PRelu") return input == 1 ? "slope" : nullptr;
  if (one_of(op, {"Gather", "GatherND", "GatherElements"})) return input == 0 ? "table" : nullptr;
  if (one_of(op, {"Add", "Sub", "Sum"})) return "bias";
  if (op == "Mul") return "factor";
  if (one_of(op, {"LSTM", "GRU", "RNN"})) {
    return input == 1                   ? "weight_ih"
           : input == 2                 ? "weight_hh"
           : input == 3                 ? "bias"
           : input == 7 && op == "LSTM" ? "peephole"
                                        : nullptr;
  }
  return op == "Einsum" ? "weight" : nullptr;
}

std::vector<char> live_nodes(const SourceGraph& g) {
  std::vector<char> live(g.nodes.size());
  std::vector<int> open(g.outputs.begin(), g.outputs.end());
  while (!open.empty()) {
    const int v = open.back();
    open.pop_back();
    if (v < 0) continue;
    const int p = g.values[static_cast<size_t>(v)].producer;
    if (p < 0 || live[static_cast<size_t>(p)]) continue;
    live[static_cast<size_t>(p)] = 1;
    const SourceNode& n = g.nodes[static_cast<size_t>(p)];
    open.insert(open.end(), n.inputs.begin(), n.inputs.end());
    for (const std::string& name : captures(n)) open.push_back(g.find(name));
  }
  return live;
}

std::vector<Use> uses_behind_views(const SourceGraph& g, const std::vector<std::vector<int>>& consumers,
                                   const std::vector<char>& live, int value) {
  struct Step {
    int value;
    bool concat;
    std::string views;
  };
  std::vector<Use> uses;
  std::set<int> seen = {value};
  std::vector<Step> open = {{value, false, ""}};
  for (size_t next = 0; next < open.size(); ++next) {
    const Step step = open[next];
    int previous = -1;
    for (const int user : consumers[static_cast<size_t>(step.value)]) {
      if (!live[static_cast<size_t>(user)] || user == previous) continue;
      previous = user;
      const SourceNode& n = g.nodes[static_cast<size_t>(user)];
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (n.inputs[i] != step.value) continue;
        if (!is_view(n, static_cast<int>(i))) {
          uses.push_back({user, static_cast<int>(i), step.concat, step.views});
          continue;
        }
        for (const int o : n.outputs) {
          if (o < 0 || !seen.insert(o).second) continue;
          open.push_back({o, step.concat || (n.op == "Concat" && n.inputs.size() > 1),
                          step.views.empty() ? n.op : step.views + ", " + n.op});
        }
      }
    }
  }
  return uses;
}

void discover_parameters(SourceGraph& g) { Discovery(g).run(); }

}  // namespace amp
