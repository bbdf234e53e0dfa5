#include "precision/units.h"

#include <algorithm>

#include "precision/unit_matcher.h"
#include "precision/unit_patterns.h"

namespace amp {

namespace {

bool match_at(const UnitMatcher& m, int n, Unit& unit) {
  const SourceNode& node = m.node(n);
  if (!node.domain.empty()) return false;
  if (node.op == "Sqrt" || node.op == "Pow") return match_norm(m, n, unit);
  if (node.op == "InstanceNormalization") return match_group_norm(m, n, unit);
  if (node.op == "Erf") return match_erf_gelu(m, n, unit);
  if (node.op == "Tanh") return match_tanh_gelu(m, n, unit);
  if (node.op == "Where") return match_softplus_where(m, n, unit);
  if (node.op == "Log") return match_softplus_log(m, n, unit);
  return false;
}

template <class Match>
std::vector<Unit> collect(const SourceGraph& g, Match match) {
  const UnitMatcher m(g);
  std::vector<Unit> units;
  std::vector<char> used(g.nodes.size(), 0);
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    Unit unit;
    if (!match(m, static_cast<int>(n), unit)) continue;
    std::sort(unit.nodes.begin(), unit.nodes.end());
    if (std::any_of(unit.nodes.begin(), unit.nodes.end(), [&](int i) { return used[static_cast<size_t>(i)]; }))
      continue;
    for (const int i : unit.nodes) used[static_cast<size_t>(i)] = 1;
    units.push_back(std::move(unit));
  }
  std::sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.nodes[0] < b.nodes[0]; });
  return units;
}

}  // namespace

std::vector<Unit> find_units(const SourceGraph& g) { return collect(g, match_at); }

std::vector<Unit> find_calls(const SourceGraph& g) {
  return collect(g, [](const UnitMatcher& m, int n, Unit& unit) {
    if (m.node(n).op == "Softmax" && m.node(n).domain.empty()) return match_attention(m, n, unit);
    if (m.node(n).op != "MatMul" || !m.node(n).domain.empty() || !m.is_weight(m.in(n, 1))) return false;
    const int add = m.only_user(m.out(n), "Add");
    const int bias = m.other(add, m.out(n));
    if (add < 0 || !m.is_weight(bias) || m.weight_rank(bias) > 1) return false;
    unit = {"Linear", {n, add}, m.in(n, 0), m.out(add)};
    return true;
  });
}

bool keeps_epsilon(const SourceGraph& g, const Unit& unit) {
  if (unit.kind.find("Normalization") == std::string::npos) return unit.kind != "Linear";
  const SourceNode& last = g.nodes[at(g.value(unit.output).producer)];
  if (last.op != "Mul" && last.op != "Add") return false;
  return std::any_of(last.inputs.begin(), last.inputs.end(), [&](int v) {
    return v >= 0 && g.value(v).kind != SourceKind::temp && g.value(v).kind != SourceKind::input;
  });
}

}  // namespace amp
