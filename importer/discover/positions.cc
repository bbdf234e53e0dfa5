// WeightPath follows a value breadth-first through views and into nested graphs. Inputs of Loop and Scan that stay the
// same in every iteration are followed as well. The tables of operators (views, roles, inputs without gradient) must
// match the operators that ops/ supports.
#include "importer/discover/positions.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "graph/bind.h"
#include "importer/quantized/fake_quant.h"
#include "importer/read/build.h"
#include "importer/read/tensor.h"

namespace amp {
namespace {

// Returns weight_role() for operators of com.microsoft, which only optimized files contain.
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
  if (op == "Inverse") return "weight";
  if (op == "EmbedLayerNormalization") return input >= 2 && input <= 4 ? "table" : role(5, 6);
  return nullptr;
}
// Returns the name that the node's nested graphs use for this captured input; empty for a declared input.
std::string captured_name(const SourceNode& n, int input) {
  const auto it = n.attrs.items().find(kCaptures);
  if (it == n.attrs.items().end()) return "";
  const auto& names = std::get<std::vector<std::string>>(it->second);
  const size_t first = n.inputs.size() - names.size();
  return static_cast<size_t>(input) < first ? "" : names[static_cast<size_t>(input) - first];
}

std::vector<const SourceGraph*> graphs_of(const SourceNode& n) {
  std::vector<const SourceGraph*> out;
  for (const auto& [key, value] : n.attrs.items()) {
    if (const auto* g = std::get_if<std::shared_ptr<const SourceGraph>>(&value)) out.push_back(g->get());
  }
  return out;
}

}  // namespace

bool is_view(const SourceNode& n, int input) {
  if (n.attrs.has(kQuantizerData)) return input == n.attrs.i(kQuantizerData, 0);
  if (!n.domain.empty()) return false;
  if (n.op == "Concat") return true;
  return input == 0 &&
         one_of(n.op, {"Identity", "Transpose", "Reshape", "Cast", "CastLike", "Squeeze", "Unsqueeze", "Flatten",
                       "Expand", "Slice", "Split", "Tile", "Pad", "QuantizeLinear", "DequantizeLinear"});
}

const char* weight_role(const SourceNode& n, int input) {
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

namespace {

// The breadth-first search of uses_through_views().
class WeightPath {
 public:
  WeightPath(const SourceGraph& g, const std::vector<std::vector<int>>& consumers, const std::vector<char>& live)
      : g_(g), consumers_(consumers), live_(live) {}

  std::vector<Use> from(int value) {
    reach(value, {value, false, ""});
    for (size_t next = 0; next < open_.size(); ++next) {
      const Step step = open_[next];
      int previous = -1;
      for (const int user : consumers_[static_cast<size_t>(step.value)]) {
        if (!live_[static_cast<size_t>(user)] || user == previous) continue;
        previous = user;
        const SourceNode& n = g_.nodes[static_cast<size_t>(user)];
        for (size_t i = 0; i < n.inputs.size(); ++i) {
          if (n.inputs[i] == step.value) use(step, user, static_cast<int>(i));
        }
      }
    }
    return std::move(uses_);
  }
  const std::set<int>& reached() const { return seen_; }

 private:
  struct Step {
    int value;
    bool concat;
    std::string views;
  };
  static std::string joined(const std::string& a, const std::string& b) {
    return a + (a.empty() || b.empty() ? "" : ", ") + b;
  }
  void reach(int value, Step step) {
    if (value >= 0 && seen_.insert(value).second) open_.push_back(std::move(step));
  }

  void use(const Step& step, int user, int input) {
    const SourceNode& n = g_.nodes[static_cast<size_t>(user)];
    if (const std::string name = captured_name(n, input); !name.empty()) {
      for (const SourceGraph* body : graphs_of(n)) inside(step, user, input, *body, name);
    } else if (!is_view(n, input)) {
      if (!loop_invariant(step, user, input))
        uses_.push_back({user, input, step.concat, step.views, "", &g_, user, input});
    } else {
      const bool concat = step.concat || (n.op == "Concat" && n.inputs.size() > 1);
      for (const int o : n.outputs) reach(o, {o, concat, joined(step.views, n.op)});
    }
  }

  void inside(const Step& step, int user, int input, const SourceGraph& body, const std::string& name) {
    const int at = body.find(name);
    if (at < 0 || body.values[static_cast<size_t>(at)].producer >= 0) return;
    const std::set<int> reached = inside(step, user, input, body, at);
    const SourceNode& n = g_.nodes[static_cast<size_t>(user)];
    if (n.op != "If") return;  // the outputs of a branch are the outputs of the If, in order
    for (size_t i = 0; i < n.outputs.size() && i < body.outputs.size(); ++i) {
      if (reached.count(body.outputs[i])) reach(n.outputs[i], {n.outputs[i], step.concat, joined(step.views, "If")});
    }
  }

  // Collects the uses of value `at` of a nested graph. Returns the values that were reached there.
  std::set<int> inside(const Step& step, int user, int input, const SourceGraph& body, int at) {
    const auto consumers = body.consumers();
    const auto live = live_nodes(body);
    WeightPath walk(body, consumers, live);
    for (Use u : walk.from(at)) {
      u.node = user;
      u.input = input;
      u.through_concat = u.through_concat || step.concat;
      u.views = joined(step.views, u.views);
      u.around = g_.nodes[static_cast<size_t>(user)].op;
      uses_.push_back(std::move(u));
    }
    return walk.reached();
  }

  // If every iteration of a Loop or Scan reads this input unchanged, collects the uses in the body and returns true.
  // tf2onnx passes the weights of a recurrent cell in this way. Scanned inputs are followed too, because a Scan may
  // slice stacked weights. An input that iterations replace is a state, not a weight.
  bool loop_invariant(const Step& step, int user, int input) {
    const SourceNode& n = g_.nodes[static_cast<size_t>(user)];
    const std::vector<const SourceGraph*> bodies = graphs_of(n);
    if (bodies.size() != 1 || !n.domain.empty()) return false;
    const SourceGraph& body = *bodies[0];
    const auto at = static_cast<size_t>(input);
    if (at >= body.inputs.size()) return false;
    size_t output = at, output_of_node = at;
    if (n.op == "Loop") {
      if (input < 2) return false;
      output = at - 1;
      output_of_node = at - 2;
    } else if (n.op == "Scan" && n.version >= 9) {
      const auto scanned = static_cast<size_t>(std::max<int64_t>(0, n.attrs.i("num_scan_inputs", 0)));
      const size_t states = body.inputs.size() - std::min(scanned, body.inputs.size());
      if (at >= states) {
        inside(step, user, input, body, body.inputs[at]);
        return true;
      }
    } else {
      return false;
    }
    if (output >= body.outputs.size() || same_value(body, body.outputs[output]) != body.inputs[at]) return false;
    inside(step, user, input, body, body.inputs[at]);
    if (output_of_node < n.outputs.size())
      reach(n.outputs[output_of_node], {n.outputs[output_of_node], step.concat, joined(step.views, n.op)});
    return true;
  }

  // Returns the input of the chain of Identity nodes that ends in v, or v itself.
  static int same_value(const SourceGraph& g, int v) {
    while (v >= 0) {
      const int p = g.values[static_cast<size_t>(v)].producer;
      if (p < 0) break;
      const SourceNode& n = g.nodes[static_cast<size_t>(p)];
      if (n.op != "Identity" || !n.domain.empty() || n.inputs.size() != 1) break;
      v = n.inputs[0];
    }
    return v;
  }

  const SourceGraph& g_;
  const std::vector<std::vector<int>>& consumers_;
  const std::vector<char>& live_;
  std::vector<Use> uses_;
  std::set<int> seen_;
  std::vector<Step> open_;
};

}  // namespace

std::vector<Use> uses_through_views(const SourceGraph& g, const std::vector<std::vector<int>>& consumers,
                                    const std::vector<char>& live, int value) {
  return WeightPath(g, consumers, live).from(value);
}

bool quantizer_input(const SourceNode& n, int input) {
  const std::string& op = n.op;
  if (op == "DequantizeLinear" || op == "QuantizeLinear") return input >= 1;
  if (n.domain != "com.microsoft" && op.rfind("QLinear", 0) != 0) return false;
  if (op.rfind("QLinear", 0) == 0) return input > 0;
  if (op == "MatMulNBits" || op == "GatherBlockQuantized") return input == 2 || input == 3;
  if (op == "MatMulBnb4" || op == "MatMulFpQ4") return input == 2;
  if (op == "DynamicQuantizeMatMul") return input == 2 || input == 3;
  if (op == "MatMulIntegerToFloat") return input >= 2 && input <= 5;
  if (op == "QAttention") return input == 3 || input == 4 || input == 6 || input == 7;
  if (op == "QMoE") return one_of(cat(input), {"3", "6", "9", "11", "12", "13"});
  return op == "DynamicQuantizeLSTM"        ? input >= 8
         : op == "QEmbedLayerNormalization" ? input >= 8
                                            : op == "QGemm" && input != 6;
}

bool rotary_table(const SourceNode& n, int input) {
  if (n.op == "RotaryEmbedding") return n.domain.empty() ? input == 1 || input == 2 : input == 2 || input == 3;
  if (n.domain != "com.microsoft") return false;
  return n.op == "GroupQueryAttention" ? input == 7 || input == 8
                                       : n.op == "SparseAttention" && (input == 9 || input == 10);
}

bool blocks_gradient(const SourceNode& n, int input) {
  if (!n.domain.empty() || n.attrs.has(kCaptures)) return false;
  const std::string& op = n.op;
  if (one_of(op, {"Shape",
                  "Size",
                  "ArgMax",
                  "ArgMin",
                  "Equal",
                  "Greater",
                  "Less",
                  "GreaterOrEqual",
                  "LessOrEqual",
                  "Not",
                  "And",
                  "Or",
                  "Xor",
                  "IsNaN",
                  "IsInf",
                  "NonZero",
                  "Sign",
                  "Floor",
                  "Ceil",
                  "Range",
                  "OneHot",
                  "ConstantOfShape",
                  "EyeLike",
                  "NonMaxSuppression",
                  "Unique",
                  "Multinomial",
                  "RandomNormalLike",
                  "RandomUniformLike",
                  "Bernoulli",
                  "DequantizeLinear"})) {
    return !(op == "DequantizeLinear" && input == 0);
  }
  if (n.attrs.has(kDetached)) {
    const std::vector<int64_t> detached = n.attrs.ints(kDetached);
    return std::find(detached.begin(), detached.end(), input) != detached.end();
  }
  if (op == "Round") return !n.attrs.has(kStraightThrough);
  if (op == "Cast") {
    const auto to = dtype_of(static_cast<int>(n.attrs.i("to", 1)));
    return !to || !is_float(*to);
  }
  if (op == "Where") return input == 0;
  if (op == "BatchNormalization") return input >= 3;
  if (one_of(op, {"LSTM", "GRU", "RNN"})) return input == 4;
  if (one_of(op, {"GatherND", "GatherElements", "ScatterElements", "ScatterND", "Scatter", "Gather"}))
    return input == 1;
  return input >= 1 &&
         one_of(op,
                {"Reshape", "Expand",    "Tile",       "Slice",     "Pad",       "TopK",           "Clip",
                 "Resize",  "Upsample",  "CumSum",     "Dropout",   "Squeeze",   "Unsqueeze",      "Trilu",
                 "Split",   "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "QuantizeLinear", "CenterCropPad"});
}

}  // namespace amp
