// For each stack of layers, follow() finds the last layer that each value depends on, and the values that the layers
// depend on. The depth of a parameter outside of the layers follows from its entries: the nodes that combine the
// parameter, or a value computed only from it, with input data.
#include "importer/discover/layer_depths.h"

#include <algorithm>
#include <queue>
#include <regex>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/discover/layers.h"
#include "importer/surgery/edit.h"

namespace amp {
namespace {

using Key = std::pair<int64_t, int64_t>;  // stage (or layer) and block; block is -1 if the stage has none

struct Stack {
  std::string name;
  std::vector<Key> layers;     // layers of the stack, from first to last
  std::vector<int> highest;    // indexed by value: the last layer that it depends on; -1: none
  std::vector<char> upstream;  // indexed by value: 1 if a layer depends on it

  int size() const { return static_cast<int>(layers.size()); }
  int index(const Key& k) const {
    const auto it = std::find(layers.begin(), layers.end(), k);
    return it == layers.end() ? -1 : static_cast<int>(it - layers.begin());
  }
};

class Depths {
 public:
  Depths(const SourceGraph& g, const std::vector<std::string>& scopes) : g_(g), consumers_(g.consumers()) {
    const std::vector<char> live = live_nodes(g);
    for (int v = 0; v < static_cast<int>(g.values.size()); ++v) {
      if (value(v).kind == SourceKind::parameter)
        names_[v] = layer_of_parameter(g, v, uses_through_views(g, consumers_, live, v), scopes);
    }
    find_stacks();
    find_fed();
    for (Stack& s : stacks_) follow(s);
  }

  LayerDepths run() const {
    LayerDepths out;
    if (stacks_.empty()) return out;
    std::map<int, int> of_master;
    for (const auto& [v, name] : names_) {
      int& depth = of_master.emplace(master(v), 0).first->second;
      depth = std::max(depth, depth_of(v, name));
    }
    for (const auto& [v, name] : names_) {
      out.depth[value(v).name] = of_master.at(master(v));
      if (!value(v).alias.empty()) out.depth[value(v).alias] = of_master.at(master(v));
    }
    for (const Stack& s : stacks_) {
      for (int i = 0; i < s.size(); ++i) {
        const auto& [number, block] = s.layers[static_cast<size_t>(i)];
        out.layers.push_back({cat(s.name, ".", number, block >= 0 ? cat(".", block) : std::string()), s.size() - i});
      }
    }
    return out;
  }

 private:
  const SourceValue& value(int v) const { return g_.values[static_cast<size_t>(v)]; }
  int master(int v) const { return value(v).tied_to < 0 ? v : value(v).tied_to; }

  void find_stacks() {
    std::map<std::string, std::map<int64_t, std::set<int64_t>>> found;  // stack -> stage -> blocks
    for (const auto& [v, n] : names_) {
      if (!n.stack.empty()) found[n.stack][n.number].insert(n.block);
    }
    for (auto& [name, stages] : found) {
      Stack s;
      s.name = name;
      for (auto& [number, blocks] : stages) {
        if (blocks.size() > 1) blocks.erase(-1);  // the key of parameters that are outside of the stage's blocks
        for (const int64_t b : blocks) s.layers.emplace_back(number, b);
      }
      stacks_.push_back(std::move(s));
    }
  }

  // Marks values that depend on a graph input, not only on parameters and constants.
  void find_fed() {
    fed_.assign(g_.values.size(), 0);
    for (size_t v = 0; v < g_.values.size(); ++v) fed_[v] = g_.values[v].kind == SourceKind::input;
    for (const SourceNode& n : g_.nodes) {
      const bool fed =
          std::any_of(n.inputs.begin(), n.inputs.end(), [&](int i) { return i >= 0 && fed_[static_cast<size_t>(i)]; });
      for (const int o : n.outputs) {
        if (o >= 0) fed_[static_cast<size_t>(o)] = fed;
      }
    }
  }

  void follow(Stack& s) {
    s.highest.assign(g_.values.size(), -1);
    std::vector<int> at;  // values: outputs of nodes that read a layer's parameters
    for (const auto& [v, n] : names_) {
      if (n.stack != s.name || s.index({n.number, n.block}) < 0) continue;
      s.highest[static_cast<size_t>(v)] = s.index({n.number, n.block});
      for (const int node : entries(v)) {
        for (const int o : g_.nodes[static_cast<size_t>(node)].outputs) {
          if (o >= 0) at.push_back(o);
        }
      }
    }
    for (const SourceNode& n : g_.nodes) {
      int most = -1;
      for (const int i : n.inputs) {
        if (i >= 0) most = std::max(most, s.highest[static_cast<size_t>(i)]);
      }
      for (const int o : n.outputs) {
        if (o >= 0) s.highest[static_cast<size_t>(o)] = most;
      }
    }
    s.upstream = upstream_of(g_, at);
  }

  // Returns the nodes that combine the parameter, or a value computed only from it, with input data.
  std::vector<int> entries(int parameter) const {
    std::vector<int> out;
    std::set<int> seen{parameter};
    std::queue<int> todo({parameter});
    for (; !todo.empty(); todo.pop()) {
      for (const int n : consumers_[static_cast<size_t>(todo.front())]) {
        for (const int o : g_.nodes[static_cast<size_t>(n)].outputs) {
          if (o < 0 || !seen.insert(o).second) continue;
          if (fed_[static_cast<size_t>(o)])
            out.push_back(n);
          else
            todo.push(o);
        }
      }
    }
    return out;
  }

  // Returns the last layer on which all of the nodes depend, or -1.
  int level(const Stack& s, const std::vector<int>& nodes) const {
    int lowest = s.size() - 1;
    for (const int n : nodes) {
      int most = -1;
      for (const int i : g_.nodes[static_cast<size_t>(n)].inputs) {
        if (i >= 0) most = std::max(most, s.highest[static_cast<size_t>(i)]);
      }
      lowest = std::min(lowest, most);
    }
    return nodes.empty() ? -1 : lowest;
  }

  int depth_of(int v, const LayerName& n) const {
    for (const Stack& s : stacks_) {
      if (s.name != n.stack) continue;
      if (const int i = s.index({n.number, n.block}); i >= 0) return s.size() - i;
      return depth_in_stage(s, v, n.number);
    }
    return depth_outside(v);
  }

  // Returns the depth of a parameter that is in a stage but in none of its blocks.
  int depth_in_stage(const Stack& s, int v, int64_t stage) const {
    int first = s.size(), last = -1;
    for (int i = 0; i < s.size(); ++i) {
      if (s.layers[static_cast<size_t>(i)].first != stage) continue;
      first = std::min(first, i);
      last = i;
    }
    return s.size() - std::clamp(level(s, entries(v)), first, last);
  }

  int depth_outside(int v) const {
    const std::vector<int> nodes = entries(v);
    int after = 0, before = 0;   // depth after (before) a stack; 0 if the parameter is not there
    const Stack* end = nullptr;  // the parameter is used after the last layer of this stack
    for (const Stack& s : stacks_) {
      const int l = level(s, nodes);
      if (l >= 0 && (after == 0 || s.size() - l < after)) {
        after = s.size() - l;
        end = after == 1 ? &s : nullptr;
      }
      if (l < 0 && s.upstream[static_cast<size_t>(v)]) before = std::max(before, s.size() + 1);
    }
    if (after == 0) return before;
    return after > 1 || before > 0 || normalizes(v, *end) ? after : 0;
  }

  // True if the parameter's name shows that it normalizes the result of the stack. For example, "vit.layernorm.weight"
  // normalizes "vit.encoder.layer", but "head.norm.weight" and "fc_norm.weight" do not normalize a stack.
  bool normalizes(int v, const Stack& s) const {
    static const std::regex norm("(norm|ln|layer_?norm|rms_?norm|final_(layer_?)?norm|post_layer_?norm)[^.]*",
                                 std::regex::icase);
    std::vector<std::string> parts = split(g_.shown(v), '.');
    if (parts.size() < 2) return false;
    parts.pop_back();
    if (!std::regex_match(parts.back(), norm)) return false;
    parts.pop_back();
    const std::vector<std::string> stack = split(s.name, '.');
    return parts.size() < stack.size() && std::equal(parts.begin(), parts.end(), stack.begin());
  }

  const SourceGraph& g_;
  const std::vector<std::vector<int>> consumers_;
  std::map<int, LayerName> names_;  // index of the parameter -> its layer
  std::vector<Stack> stacks_;
  std::vector<char> fed_;
};

}  // namespace

LayerDepths layer_depths(const SourceGraph& g, const std::vector<std::string>& scopes) {
  return Depths(g, scopes).run();
}

}  // namespace amp
