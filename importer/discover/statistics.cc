// Groups BatchNormalization nodes by scale, bias, mean and variance (one group is one module). A statistic that only
// one module reads is marked in place. Other statistics get a copy (merged.h).
#include "importer/discover/statistics.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "importer/discover/merged.h"
#include "importer/discover/positions.h"

namespace amp {
namespace {

constexpr std::array<size_t, 2> kStatistics = {3, 4};  // inputs of BatchNormalization: mean, variance

bool is_batch_norm(const SourceNode& n) {
  return n.op == "BatchNormalization" && n.domain.empty() && n.inputs.size() >= 5;
}

class Statistics {
 public:
  Statistics(Built& built, ModelDoc& doc)
      : g_(built.graph), built_(built), doc_(doc), live_(live_nodes(g_)), consumers_(g_.consumers()) {}

  void run() {
    std::map<std::vector<int>, std::vector<int>> modules;  // scale, bias, mean, variance -> nodes
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      const std::vector<int>& in = g_.nodes[n].inputs;
      if (live_[n] && is_batch_norm(g_.nodes[n]))
        modules[{in.begin() + 1, in.begin() + 5}].push_back(static_cast<int>(n));
    }
    for (const auto& [key, nodes] : modules) {
      for (const size_t input : kStatistics) mark(nodes, input, key[input - 1]);
    }
  }

 private:
  void mark(const std::vector<int>& module, size_t input, int v) {
    if (v < 0) return;
    const SourceValue& value = g_.values[static_cast<size_t>(v)];
    const std::string what = cat("running ", input == 3 ? "mean" : "variance", " of '",
                                 printable(g_.nodes[static_cast<size_t>(module[0])].name), "'");
    if (!value.data || !is_float(value.data.dtype())) return stays(what, value, "the graph computes it");
    if (!alone(module, v)) return separate(module, input, v, what);
    if (value.trainable) return stays(what, value, "`trainable` makes it a weight");
    state(v, what);
  }

  // True if no node reads v except those of `module`, the BatchNormalization nodes that share their parameters, and v
  // is no graph output.
  bool alone(const std::vector<int>& module, int v) const {
    return std::find(g_.outputs.begin(), g_.outputs.end(), v) == g_.outputs.end() &&
           // Both lists are in ascending order. A node that reads v by two inputs occurs twice in consumers_, so the
           // lists then differ.
           consumers_[static_cast<size_t>(v)] == module;
  }

  void state(int v, const std::string& reason) {
    SourceValue& s = g_.values[static_cast<size_t>(v)];
    s.kind = SourceKind::parameter;
    s.trainable = false;
    s.tied_to = -1;
    s.reason = reason;
  }

  void separate(const std::vector<int>& module, size_t input, int v, const std::string& what) {
    const SourceValue shared = g_.values[static_cast<size_t>(v)];
    const bool reachable = std::all_of(module.begin(), module.end(), [&](int n) {
      const int out = g_.nodes[static_cast<size_t>(n)].outputs[0];
      return out >= 0 && built_.visible[static_cast<size_t>(out)];
    });
    if (!reachable) return stays(what, shared, "it shares a tensor with other nodes inside a local function or branch");
    std::vector<SharedUse> uses;
    for (const int n : module) uses.push_back({n, static_cast<int>(input)});
    const std::string name = g_.fresh_name(cat(shared.name, input == 3 ? ".running_mean" : ".running_var"));
    const int copy = separate_value(built_, doc_, v, name, uses);
    state(copy, cat(what, ", in the file one tensor with '", printable(shared.name), "'"));
  }

  void stays(const std::string& what, const SourceValue& v, const std::string& why) {
    built_.notes.push_back(cat(what, ", '", printable(v.name), "', stays as it is: ", why));
  }

  SourceGraph& g_;
  Built& built_;
  ModelDoc& doc_;
  const std::vector<char> live_;
  const std::vector<std::vector<int>> consumers_;
};

}  // namespace

void find_statistics(Built& built, ModelDoc& doc) { Statistics(built, doc).run(); }

}  // namespace amp
