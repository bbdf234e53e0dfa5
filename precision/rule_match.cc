// Compares every rule with every node by globs; the last rule that matches a node applies. A rule with `param` also
// matches parameters that reach the node through views, and the masters of tied parameters.
#include "precision/rule_match.h"

#include <algorithm>

#include "base/text.h"

namespace amp {

namespace {

// Returns for each value the parameters from which it is derived by view operators only. A tied copy also counts as its
// master.
std::vector<std::vector<int>> parameters_behind(const SourceGraph& g) {
  std::vector<std::vector<int>> out(g.values.size());
  for (size_t v = 0; v < g.values.size(); ++v) {
    if (g.values[v].kind != SourceKind::parameter) continue;
    out[v] = {static_cast<int>(v)};
    if (g.values[v].tied_to >= 0) out[v].push_back(g.values[v].tied_to);
  }
  for (const SourceNode& n : g.nodes) {
    const bool view = n.op == "Identity" || n.op == "Transpose" || n.op == "Reshape" || n.op == "Cast" ||
                      n.op == "Squeeze" || n.op == "Unsqueeze" || n.op == "Flatten" || n.op == "DequantizeLinear";
    if (!view || n.inputs.empty() || n.inputs[0] < 0 || n.outputs.empty() || n.outputs[0] < 0) continue;
    out[static_cast<size_t>(n.outputs[0])] = out[static_cast<size_t>(n.inputs[0])];
  }
  return out;
}

bool matches_value(const SourceGraph& g, const std::string& glob, int v) {
  return v >= 0 && (glob_match(glob, g.values[static_cast<size_t>(v)].name) || glob_match(glob, g.shown(v)));
}

// Returns whether the glob matches a scope that contains the node: "/encoder/layer.11" covers
// "/encoder/layer.11/attention/MatMul". The first '/' may be omitted.
bool matches_scope(std::string glob, const std::string& name) {
  while (!glob.empty() && glob.back() == '/') glob.pop_back();
  for (size_t slash = name.find('/', 1); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    const std::string_view scope(name.data(), slash);
    if (glob_match(glob, scope) || (scope[0] == '/' && glob_match(glob, scope.substr(1)))) return true;
  }
  return false;
}

}  // namespace

RuleMatches match_rules(const SourceGraph& g, const std::vector<PrecisionRule>& rules, const std::vector<Unit>& units,
                        const std::vector<char>& eligible) {
  RuleMatches out{std::vector<int>(g.nodes.size(), -1), std::vector<char>(rules.size(), 0),
                  std::vector<int>(rules.size(), -1)};
  if (rules.empty()) return out;
  const std::vector<std::vector<int>> parameters = parameters_behind(g);
  std::vector<const Unit*> unit_of(g.nodes.size(), nullptr);
  for (const Unit& u : units) {
    for (const int n : u.nodes) unit_of[static_cast<size_t>(n)] = &u;
  }
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const SourceNode& n = g.nodes[i];
    for (size_t r = 0; r < rules.size(); ++r) {
      const PrecisionRule& rule = rules[r];
      const auto reads = [&](int v) {
        const std::vector<int>& behind = v < 0 ? std::vector<int>{} : parameters[static_cast<size_t>(v)];
        return std::any_of(behind.begin(), behind.end(), [&](int p) { return matches_value(g, rule.param, p); });
      };
      const auto writes = [&](int v) { return matches_value(g, rule.tensor, v); };
      const bool op = rule.op.empty() || glob_match(rule.op, n.op) ||
                      glob_match(rule.op, (n.domain.empty() ? "ai.onnx" : n.domain) + "::" + n.op) ||
                      (unit_of[i] && glob_match(rule.op, unit_of[i]->kind));
      if (!op || (!rule.node.empty() && !glob_match(rule.node, n.name))) continue;
      if (!rule.scope.empty() && !matches_scope(rule.scope, n.name)) continue;
      if (!rule.tensor.empty() && std::none_of(n.outputs.begin(), n.outputs.end(), writes)) continue;
      if (!rule.param.empty() && std::none_of(n.inputs.begin(), n.inputs.end(), reads)) continue;
      if (!eligible[i]) {
        if (out.no_floats[r] < 0) out.no_floats[r] = static_cast<int>(i);
        continue;
      }
      out.of_node[i] = static_cast<int>(r);
      out.matched[r] = 1;
    }
  }
  return out;
}

}  // namespace amp
