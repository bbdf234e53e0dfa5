// Discovers parameters in two passes. The first pass finds the clear weights: large tensors of unstructured values that
// products, convolutions or lookups read. The second pass weighs the evidence for every constant.
#include "importer/discover/discover.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "graph/folded_rows.h"
#include "importer/discover/evidence.h"
#include "importer/discover/evidence_position.h"
#include "importer/discover/fixed_pattern.h"
#include "importer/discover/formula.h"
#include "importer/discover/tensor_values.h"

namespace amp {
namespace {

// True if a product, convolution, recurrent cell or lookup reads the tensor as an operand that can be a large weight.
bool large_weight_use(const Use& u) {
  const char* role = weight_role(u.at(), u.site_input);
  if (!role || one_of(role, {"bias", "factor", "slope", "peephole"})) return false;
  return !one_of(u.at().op, {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization",
                             "InstanceNormalization", "GroupNormalization", "BatchNormalization",
                             "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"});
}

bool product_bias(const Use& u) {
  return after_product(u) || (u.site_input == 2 && one_of(u.at().op, {"Conv", "ConvTranspose", "Gemm"}));
}

bool plain_word(const std::string& name) {
  return !name.empty() && std::none_of(name.begin(), name.end(),
                                       [](unsigned char c) { return std::isdigit(c) || c == '/' || c == ':'; });
}

// "encoder.layer.3.fc" -> "encoder.layer.#.fc"
std::string without_digits(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) out += c;
    if (digit && (out.empty() || out.back() != '#')) out += '#';
  }
  return out;
}

std::string module_of_name(const std::string& name) {
  const size_t dot = name.rfind('.');
  return without_digits(dot == std::string::npos ? "" : name.substr(0, dot));
}

// Facts about the clear weights. They are found by position and values, so their names show how the file names weights.
struct ClearWeights {
  std::vector<char> is;      // per value: 1 for a clear weight
  bool any_learned = false;  // a weight of any size has unstructured values that are not short decimals
  bool biases_learned = false, tensorflow = false;  // a bias is unstructured; a name is a TensorFlow variable's
  int all = 0, named = 0, made_up = 0, in_nodes = 0, raw = 0;
  std::set<std::string> modules, ends;  // modules and last components of the clear weights' names, with '#' for digits

  // Returns the factor for evidence that `of_them` clear weights have too: 1 if none has it, 0 if a quarter or more do.
  double rarity(int of_them) const { return all == 0 ? 1 : std::max(0.0, 1 - 4.0 * of_them / all); }
};

class Discovery {
 public:
  Discovery(SourceGraph& g, const ExporterRecord& record) : g_(g), record_(record), positions_(g) {
    find_clear_weights();
    positions_.set_file(clear_.any_learned, clear_.raw * 5 > clear_.all * 2);
    named_ = record_.lists_parameters || weights_have_names();
  }

  std::vector<Verdict> run() {
    std::vector<Verdict> verdicts(g_.values.size());
    for (size_t v = 0; v < g_.values.size(); ++v) {
      if (g_.values[v].kind == SourceKind::constant) decide(static_cast<int>(v), verdicts[v]);
    }
    return verdicts;
  }

 private:
  const TensorRecord& record(int v) const { return record_.of[static_cast<size_t>(v)]; }
  bool clear(int v) const { return clear_.is[static_cast<size_t>(v)] != 0; }

  // True if the dotted name is a module path. If PyTorch did not write the file, the name must be usual for a parameter
  // or share its module or last component with a clear weight: other exporters number tensors with dots.
  bool module_path(const std::string& name) const {
    if (naming_of(name) != Naming::module) return false;
    if (record_.torch || clear_.all == 0 || name.find("ReadVariableOp") != std::string::npos) return true;
    const auto usual = usual_name(name);
    return (usual && usual->weight > 0) || clear_.modules.count(module_of_name(name)) ||
           clear_.ends.count(without_digits(last_component(name)));
  }

  // Returns the Naming of the tensor's best name. PyTorch names a tensor that the model itself holds without a dot.
  Naming own_naming(int v) const {
    const TensorRecord& r = record(v);
    if (!r.initializer) return Naming::made_up;
    Naming best = Naming::made_up;
    for (const std::string& name : r.names) {
      const Naming n = naming_of(name);
      // TorchScript keeps plain names such as "mean". Names that PyTorch's exporters generate contain a number.
      const bool word = n == Naming::none || (!record_.lists_parameters && plain_word(name));
      if (module_path(name) || (word && record_.torch)) return Naming::module;
      // TensorFlow's variables were recognized above, so this name with slashes belongs to an operator.
      const bool graph_name = clear_.tensorflow && n == Naming::none && name.find('/') != std::string::npos;
      if (n != Naming::made_up && n != Naming::module && !graph_name) best = n;
    }
    return best;
  }

  void find_clear_weights() {
    clear_.is.assign(g_.values.size(), 0);
    std::vector<int> found;
    for (size_t i = 0; i < g_.values.size(); ++i) {
      const SourceValue& v = g_.values[i];
      const int at = static_cast<int>(i);
      constexpr int64_t kFew = 6, kLarge = 16;
      if (v.kind != SourceKind::constant || !v.data || !is_float(v.data.dtype()) || v.data.numel() < kFew) continue;
      const std::vector<Use> uses = positions_.uses(at);
      if (uses.empty() || !positions_.learnable(at) || !unstructured(v.data, kFew)) continue;
      clear_.any_learned = clear_.any_learned || !printed_decimals(v.data);
      clear_.biases_learned = clear_.biases_learned || (v.data.rank() == 1 && product_bias(uses.front()));
      if (std::none_of(uses.begin(), uses.end(), large_weight_use)) continue;
      if (v.data.numel() < kLarge) continue;
      clear_.is[i] = 1;
      clear_.raw += positions_.raw_product(PositionEvidence::main_use(uses));
      found.push_back(at);
    }
    clear_.all = static_cast<int>(found.size());
    for (const int v : found) {
      if (!record(v).initializer) {
        ++clear_.in_nodes;
        continue;
      }
      for (const std::string& name : record(v).names) {
        if (naming_of(name) != Naming::module) continue;
        clear_.tensorflow = clear_.tensorflow || name.find("ReadVariableOp") != std::string::npos;
        clear_.modules.insert(module_of_name(name));
        clear_.ends.insert(without_digits(last_component(name)));
      }
      const Naming n = own_naming(v);
      clear_.named += n == Naming::module || n == Naming::folded;
      clear_.made_up += n == Naming::made_up;
    }
  }

  // True if at least a fifth of the initializers in weights' positions have names that come from modules.
  bool weights_have_names() const {
    int named = 0, all = 0;
    for (size_t i = 0; i < g_.values.size(); ++i) {
      const SourceValue& v = g_.values[i];
      const int at = static_cast<int>(i);
      if (v.kind != SourceKind::constant || !v.data || !is_float(v.data.dtype()) || v.data.numel() < 2) continue;
      const std::vector<Use> uses = positions_.uses(at);
      if (uses.empty() || !record(at).initializer) continue;
      const Use& u = PositionEvidence::main_use(uses);
      if (!weight_role(u.at(), u.site_input)) continue;
      ++all;
      const Naming n = own_naming(at);
      named += n == Naming::module || n == Naming::folded;
    }
    return named > 0 && named * 5 >= all;
  }

  void decide(int v, Verdict& verdict) {
    SourceValue& value = g_.values[static_cast<size_t>(v)];
    const HostTensor& data = value.data;
    if (!value.reason.empty()) return;  // decided while the file was read
    if (!data) {
      value.reason = "constant: its type has no arithmetic";
      return;
    }
    if (!is_float(data.dtype())) {
      value.reason = cat("constant: ", name_of(data.dtype()));
      return;
    }
    const std::vector<Use> uses = positions_.uses(v);
    if (uses.empty()) {
      const bool output = std::find(g_.outputs.begin(), g_.outputs.end(), v) != g_.outputs.end();
      value.reason = output ? "constant: only a graph output" : "constant: no graph output depends on it";
      return;
    }
    const Use& main = PositionEvidence::main_use(uses);
    if (data.numel() == 0) {
      value.reason = cat("constant: no element, ", PositionEvidence::place(main));
      return;
    }
    verdict.evidence = weigh(v, uses);
    if (verdict.weight()) {
      const char* role = weight_role(main.at(), main.site_input);
      value.kind = SourceKind::parameter;
      value.trainable = true;
      value.reason = cat(role ? role : "weight", ": ", PositionEvidence::place(main));
    } else {
      const auto strongest = std::min_element(verdict.evidence.begin(), verdict.evidence.end(),
                                              [](const Evidence& a, const Evidence& b) { return a.weight < b.weight; });
      value.reason = cat("constant: ", strongest->text, ", ", PositionEvidence::place(main));
    }
  }

  std::vector<Evidence> weigh(int v, const std::vector<Use>& uses) const {
    const HostTensor data = one_copy(v, uses);
    std::vector<Evidence> out;
    const Naming naming = name_evidence(v, uses, out);
    for (Evidence& e : positions_.weigh(v, uses, naming)) out.push_back(std::move(e));
    ValueContext context;
    context.operand = operands_only(uses);
    context.in_product = std::any_of(uses.begin(), uses.end(), large_weight_use);
    context.starts_regular = starts_regular(uses);
    context.product_bias = std::all_of(uses.begin(), uses.end(), product_bias);
    context.learned = clear_.any_learned;
    context.biases_learned = clear_.biases_learned;
    for (Evidence& e : value_evidence(data, naming, context)) out.push_back(std::move(e));
    if (data.numel() < g_.value(v).data.numel() && unstructured(data, 4))
      out.push_back({"a copy for each row of a batch, without regularity: a parameter that was expanded", 8});
    return out;
  }

  // Returns a single copy of a value that the file stores once for each sample of a batch, because it is concatenated
  // with the batch. Returns other values whole.
  HostTensor one_copy(int v, const std::vector<Use>& uses) const {
    const HostTensor& data = g_.value(v).data;
    const auto own_rows = [&](const Use& u) {
      return large_weight_use(u) && !u.through_concat && (data.rank() < 3 || u.at().op != "MatMul");
    };
    if (data.rank() < 2 || std::any_of(uses.begin(), uses.end(), own_rows)) return data;
    if (record(v).kind != Recorded::folded && !TensorValues(data).distinct(1).empty()) return data;  // an initial state
    for (const int input : g_.inputs) {
      const std::vector<Dim>& d = g_.value(input).dims;
      const int64_t rows = d.empty() ? 0 : d[0].value;
      for (int axis = 0; axis < 2; ++axis) {
        if (holds_copies(data, axis, rows))
          return without_copies(repeated(data, axis, data.dims()[static_cast<size_t>(axis)] / rows, 1), axis);
      }
    }
    return data;
  }

  static bool operands_only(const std::vector<Use>& uses) {
    return std::all_of(uses.begin(), uses.end(), [](const Use& u) {
      const std::string& op = u.at().op;
      return op == "Add" || op == "Sub" || op == "Mul" || op == "Sum" || !weight_role(u.at(), u.site_input);
    });
  }

  // True if the tensor is used as a bias, a norm's scale or a similar weight that is initialized to zeros or ones.
  static bool starts_regular(const std::vector<Use>& uses) {
    return std::any_of(uses.begin(), uses.end(), [](const Use& u) {
      const char* role = weight_role(u.at(), u.site_input);
      if (after_product(u) || after_norm(u)) return true;
      if (!role || one_of(u.at().op, {"Add", "Sub", "Sum", "Mul"})) return false;
      return one_of(role, {"bias", "peephole", "slope"}) || (!large_weight_use(u) && role != std::string("factor"));
    });
  }

  // Adds the evidence of metadata and name. Returns the Naming, which decides how much position and values count.
  Naming name_evidence(int v, const std::vector<Use>& uses, std::vector<Evidence>& out) const {
    const TensorRecord& r = record(v);
    switch (r.kind) {
      case Recorded::parameter:
        out.push_back({"the exporter lists it as a parameter", 9});
        return Naming::module;
      case Recorded::buffer:
        out.push_back({"the exporter lists it as a buffer", -12});
        return Naming::module;
      case Recorded::folded:
        out.push_back({cat("the exporter computed it from parameter '", printable(r.from), "'"), 6});
        return Naming::folded;
      case Recorded::computed:
        // A weight that a norm is folded into is computed from constants too, so this is weak evidence there.
        out.push_back(
            {r.from_buffers ? "the exporter computed it from buffers" : "the exporter computed it from constants",
             !r.from_buffers && computed_weight(v, uses) ? -2.0 : -8.0});
        return Naming::made_up;
      case Recorded::nothing:
        break;
    }
    if (!named_) {
      usual(r, uses, 0.5, out);
      return Naming::none;
    }
    const Naming naming = own_naming(v);
    if (naming == Naming::module) {
      out.push_back({"named after a module", 2});
      usual(r, uses, 1, out);
    } else if (naming == Naming::folded) {
      out.push_back({"the exporter computed it from a module's tensor", 3});
    } else if (naming == Naming::made_up) {
      return made_up_evidence(v, out);
    } else {
      usual(r, uses, 0.5, out);
    }
    return naming;
  }

  // Adds evidence against a tensor that has a generated name or is in a Constant node. The evidence is weaker if many
  // clear weights have such names too, or if v is a clear weight. Returns the Naming.
  Naming made_up_evidence(int v, std::vector<Evidence>& out) const {
    if (!clear(v) && optimizer_result(v)) {
      out.push_back({"an optimizer computed it from the file's tensors", 0});
      return Naming::folded;
    }
    const bool initializer = record(v).initializer;
    const double rarity = clear_.rarity(initializer ? clear_.made_up : clear_.in_nodes);
    double weight = initializer ? -1 : record_.torch ? -9 : -6;
    if (clear(v)) weight = initializer ? -0.5 : record_.torch ? -4 : -3;
    if (rarity > 0) {
      out.push_back({initializer ? "the exporter made up its name, other weights have theirs"
                                 : "in a Constant node, the file's weights are named initializers",
                     weight * rarity});
    }
    return rarity > 0 ? Naming::made_up : Naming::none;
  }

  // True for an unstructured result that onnxsim or onnxslim named after the node that they evaluated
  // ("/block/Exp_output_0"). It was computed from a parameter or buffer, because numbers of Python do not become nodes.
  bool optimizer_result(int v) const {
    const HostTensor& data = g_.value(v).data;
    const std::string& name = record(v).names.front();
    const size_t end = name.rfind("_output_");
    if (!record_.torch || name[0] != '/' || end == std::string::npos) return false;
    if (last_component(name).rfind("constant", 0) == 0) return false;
    return data.numel() == 1 ? !from_formula(data) : unstructured(data, 4);
  }

  // True if v is a clear weight, or the bias of a convolution or Gemm without a fixed pattern.
  bool computed_weight(int v, const std::vector<Use>& uses) const {
    if (clear(v)) return true;
    const SourceValue& value = g_.values[static_cast<size_t>(v)];
    const bool bias = std::all_of(uses.begin(), uses.end(), [](const Use& u) {
      return u.site_input == 2 && one_of(u.at().op, {"Conv", "ConvTranspose", "Gemm"});
    });
    return bias && value.data.numel() >= 2 && !fixed_pattern(value.data);
  }

  // Adds the evidence, times `factor`, of the merged name that most strongly indicates a parameter. Evidence against a
  // parameter is dropped if another name gives none.
  void usual(const TensorRecord& r, const std::vector<Use>& uses, double factor, std::vector<Evidence>& out) const {
    const bool table = std::any_of(uses.begin(), uses.end(), [](const Use& u) { return u.at().op == "Gather"; });
    std::optional<Evidence> best;
    bool silent = false;
    for (const std::string& name : r.names) {
      auto e = usual_name(name);
      if (last_component(name) == "weights" && !table) e.reset();  // buffers named "weights" are position tables
      if (scaler(name)) e = Evidence{"a mean is beside it: a scaler", -5};
      if (spectral_vector(name)) e = Evidence{"the vector of a spectral norm", -8};
      if (frozen_norm(name)) e = Evidence{"its module computes with running statistics: a frozen norm", -4};
      silent = silent || !e;
      if (e && (!best || e->weight > best->weight)) best = e;
    }
    if (best && !(best->weight < 0 && silent)) out.push_back({best->text, best->weight * factor});
  }

  // True for a name next to a "running_var" that no BatchNormalization reads: the model's code computes the norm.
  bool frozen_norm(const std::string& name) const {
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos) return false;
    const int var = g_.find(name.substr(0, dot + 1) + "running_var");
    if (var < 0) return false;
    const std::vector<Use> uses = positions_.uses(var);
    return !uses.empty() &&
           std::none_of(uses.begin(), uses.end(), [](const Use& u) { return u.at().op == "BatchNormalization"; });
  }

  // True for "conv.weight_u" next to "conv.weight_orig", and for "_u" and "_v" of torch's newer parametrization.
  bool spectral_vector(const std::string& name) const {
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos) return false;
    const std::string last = name.substr(dot + 1);
    if (last == "weight_v" || last == "weight_u") return g_.find(name.substr(0, dot + 1) + "weight_orig") >= 0;
    return name.find("parametrizations.") != std::string::npos && (last == "_u" || last == "_v");
  }

  // True for "scaler.scale", "scaler.std" and similar names if the file also holds "scaler.mean".
  bool scaler(const std::string& name) const {
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos) return false;
    const std::string last = name.substr(dot + 1), stem = name.substr(0, dot + 1);
    const auto beside = [&](const char* other) { return g_.find(stem + other) >= 0; };
    if (!one_of(last, {"scale", "scale_", "std", "std_", "stdev", "sigma", "var", "var_"})) return false;
    return beside("mean") || beside("mean_") || beside("mu");
  }

  SourceGraph& g_;
  const ExporterRecord& record_;
  PositionEvidence positions_;
  ClearWeights clear_;
  bool named_ = false;
};

}  // namespace

std::vector<Verdict> discover_parameters(SourceGraph& g, const ExporterRecord& record) {
  return Discovery(g, record).run();
}

}  // namespace amp
