// Groups the uses of a constant-valued tensor by module path. One module (the owner) keeps the tensor; the others get
// copies. Calls of one module that exporters number ("norm", "norm_1") are recognized, so that a module that runs
// several times stays one.
#include "importer/discover/merged.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/discover/positions.h"
#include "importer/discover/tensor_values.h"

namespace amp {
namespace {

class MergedTensors {
 public:
  MergedTensors(Built& built, ModelDoc& doc)
      : built_(built), doc_(doc), g_(built.graph), live_(live_nodes(g_)), consumers_(g_.consumers()) {
    for (const std::string& s : built_.scopes) scopes_.insert(s);
  }

  void run() {
    // Copies that build_source() created from Identity nodes. Each keeps the name of its Identity.
    for (const auto& [copy, of] : built_.copies) doc_.separated[copy].of = of;
    const size_t values = g_.values.size();
    for (size_t v = 0; v < values; ++v) split(static_cast<int>(v));
  }

 private:
  // Returns the uses of v by module; empty if one of them cannot be rewired in the file.
  std::map<std::string, std::vector<SharedUse>> modules_of(int v) const {
    std::map<std::string, std::vector<SharedUse>> out;
    int previous = -1;
    for (const int n : consumers_[static_cast<size_t>(v)]) {
      if (!live_[static_cast<size_t>(n)] || n == previous) continue;
      previous = n;
      const SourceNode& node = g_.nodes[static_cast<size_t>(n)];
      const int made = node.outputs.empty() ? -1 : node.outputs[0];
      if (made < 0 || !built_.visible[static_cast<size_t>(made)] || !captures(node).empty()) return {};
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == v) out[module_of(n, i)].push_back({n, static_cast<int>(i)});
      }
    }
    return out;
  }

  std::string module_of(int n, size_t input) const {
    const SourceNode& node = g_.nodes[static_cast<size_t>(n)];
    const std::string scope = called_once(built_.scopes[static_cast<size_t>(n)]);
    if (node.op != "BatchNormalization" || input < 3) return scope;
    // Without paths, nodes with the same four tensors are one module that runs several times.
    if (scope.empty())
      return cat(node.inputs[1], ',', node.inputs[2], ',', node.inputs[3], ',', node.inputs[4],
                 input == 3 ? ".running_mean" : ".running_var");
    return cat(scope, input == 3 ? ".running_mean" : ".running_var");
  }

  // Returns the scope without the number of the call. Exporters number the calls of a module: "norm_1" is a call of
  // "norm" unless values are named after "norm_1". A scope "norm", or a value named after it, must also exist.
  std::string called_once(const std::string& scope) const {
    const size_t dot = scope.rfind('.'), bar = scope.rfind('_');
    if (bar == std::string::npos || (dot != std::string::npos && bar < dot) || bar + 1 == scope.size()) return scope;
    if (!all_digits(std::string_view(scope).substr(bar + 1)) || names_values(scope)) return scope;
    const std::string once = scope.substr(0, bar);
    return scopes_.count(once) || names_values(once) ? once : scope;
  }

  bool names_values(const std::string& module) const {
    return std::any_of(g_.values.begin(), g_.values.end(), [&](const SourceValue& v) {
      return v.kind == SourceKind::constant && v.name.starts_with(module + ".");
    });
  }

  void split(int v) {
    const SourceValue value = g_.values[static_cast<size_t>(v)];
    if (value.kind != SourceKind::constant || !value.data || !is_float(value.data.dtype())) return;
    if (value.data.numel() < 2 || consumers_[static_cast<size_t>(v)].size() < 2) return;
    if (!built_.visible[static_cast<size_t>(v)] || !TensorValues(value.data).constant_valued()) return;
    if (std::find(g_.outputs.begin(), g_.outputs.end(), v) != g_.outputs.end()) return;
    const auto modules = modules_of(v);
    const std::string own = owner(value.name, modules);
    for (const auto& [module, uses] : modules) {
      if (module != own) separate(v, module, uses);
    }
  }

  // Returns the module that keeps the file's tensor. It is the module in the tensor's name, else the first module that
  // does not read the tensor as a running statistic.
  static std::string owner(const std::string& name, const std::map<std::string, std::vector<SharedUse>>& modules) {
    const size_t dot = name.rfind('.');
    const std::string stem = dot == std::string::npos ? "" : name.substr(0, dot);
    std::string best;
    int first = -1;
    for (const auto& [module, uses] : modules) {
      if (module == stem && !stem.empty()) return module;
      const bool statistic = module.size() > 8 && (module.find(".running_") != std::string::npos);
      if (!statistic && (first < 0 || uses.front().node < first)) {
        best = module;
        first = uses.front().node;
      }
    }
    return first < 0 && !modules.empty() ? modules.begin()->first : best;
  }

  std::string name_of_copy(int v, const std::string& module, const SharedUse& use) const {
    const std::string& file_name = g_.values[static_cast<size_t>(v)].name;
    if (module.find(".running_") != std::string::npos)
      return std::isdigit(static_cast<unsigned char>(module[0])) ? file_name + module.substr(module.find(".running_"))
                                                                 : module;
    const char* role = weight_role(g_.nodes[static_cast<size_t>(use.node)], use.input);
    const std::string r = role ? role : "constant";
    return cat(module.empty() ? "shared" : module, ".", r == "factor" || r == "slope" || r == "table" ? "weight" : r);
  }

  void separate(int v, const std::string& module, const std::vector<SharedUse>& uses) {
    const std::string name = g_.fresh_name(name_of_copy(v, module, uses.front()));
    built_.copies[separate_value(built_, doc_, v, name, uses)] = v;
  }

  Built& built_;
  ModelDoc& doc_;
  SourceGraph& g_;
  const std::vector<char> live_;
  const std::vector<std::vector<int>> consumers_;
  std::set<std::string> scopes_;
};

}  // namespace

int separate_value(Built& built, ModelDoc& doc, int v, const std::string& name, const std::vector<SharedUse>& uses) {
  SourceGraph& g = built.graph;
  const SourceValue& shared = g.values[static_cast<size_t>(v)];
  SourceValue own;
  own.name = name;
  own.kind = SourceKind::constant;
  own.dtype = shared.dtype;
  own.dtype_known = own.rank_known = true;
  own.dims = shared.dims;
  own.data = shared.data;
  const int copy = g.add_value(std::move(own));
  built.slot_of.push_back(-1);
  built.visible.push_back(1);
  ModelDoc::Separated& separated = doc.separated[copy];
  separated.of = v;  // the value that the file's nodes read instead of the copy
  for (const SharedUse& use : uses) {
    SourceNode& node = g.nodes[static_cast<size_t>(use.node)];
    node.inputs[static_cast<size_t>(use.input)] = copy;
    separated.readers.push_back({g.values[static_cast<size_t>(node.outputs[0])].name, use.input});
  }
  return copy;
}

void split_merged(Built& built, ModelDoc& doc) { MergedTensors(built, doc).run(); }

std::string describe_split(const Built& built) {
  constexpr size_t kNamed = 3;
  std::set<int> tensors;
  std::vector<std::string> names;
  for (const auto& [copy, of] : built.copies) {
    const SourceValue& v = built.graph.values[static_cast<size_t>(copy)];
    if (v.kind != SourceKind::parameter) continue;
    tensors.insert(of);
    names.push_back(v.name);
  }
  if (names.empty()) return "";
  const size_t all = names.size();
  if (all > kNamed) names.resize(kNamed);
  return cat(all, all == 1 ? " weight has" : " weights have", " no tensor of ", all == 1 ? "its" : "their",
             " own in the file, which stores equal values once: ", printable(join(names, ", ")),
             all > kNamed ? ", ..." : "", "; each module trains its own (`tie_weights` file: as the file has them)");
}

}  // namespace amp
