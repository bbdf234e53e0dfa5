// Builds the vertices and edges for painting. Units (decomposed operators) are formed only if all their nodes are
// eligible and the list names their kind. Edges follow floating-point data inputs.
#include "precision/plan_graph.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "precision/float_types.h"

namespace amp {

namespace {

// Marks the nodes with floating-point arithmetic as eligible, and those with float64 as wide. Other nodes have no
// compute type: shape arithmetic, Boolean masks, casts to integers, control flow.
void find_eligible(const SourceGraph& g, PlanGraph& out) {
  static const std::set<std::string_view> never = {"Shape",    "Size", "If", "Loop", "Scan",
                                                   "Constant", "And",  "Or", "Xor",  "Not"};
  const auto floating = [&](int v) { return v >= 0 && is_float(out.types[at(v)]); };
  const auto is_f64 = [&](int v) { return v >= 0 && out.types[at(v)] == DType::f64; };
  out.eligible.assign(g.nodes.size(), 0);
  out.wide.assign(g.nodes.size(), 0);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const SourceNode& n = g.nodes[i];
    const bool to_int = (n.op == "Cast" || n.op == "CastLike") && !n.outputs.empty() && !floating(n.outputs[0]);
    if (to_int || (n.domain.empty() && never.count(n.op))) continue;
    bool any = std::any_of(n.outputs.begin(), n.outputs.end(), floating);
    for (size_t k = 0; k < n.inputs.size(); ++k) any = any || (floating(n.inputs[k]) && is_data_input(n, k));
    out.wide[i] = any && (std::any_of(n.inputs.begin(), n.inputs.end(), is_f64) ||
                          std::any_of(n.outputs.begin(), n.outputs.end(), is_f64));
    out.eligible[i] = any && !out.wide[i];
  }
}

void choose_units(const SourceGraph& g, const OpList& list, PlanGraph& out) {
  std::vector<char> taken(g.nodes.size(), 0);
  const auto add = [&](Unit unit) {
    const bool whole =
        std::all_of(unit.nodes.begin(), unit.nodes.end(), [&](int n) { return out.eligible[at(n)] && !taken[at(n)]; });
    if (!whole) return;
    for (const int n : unit.nodes) {
      taken[at(n)] = 1;
      out.in_unit[at(n)] = !keeps_epsilon(g, unit)    ? UnitSafety::none
                           : unit.kind == "Attention" ? UnitSafety::all
                                                      : UnitSafety::epsilon;
    }
    out.units.push_back(std::move(unit));
  };
  out.in_unit.assign(g.nodes.size(), UnitSafety::none);
  for (Unit& u : find_units(g)) {
    // The nodes of a unit are decided one by one in two cases: the list does not name the unit's kind, or the unit is a
    // GELU that contains a Pow and PyTorch's rule is used. Exporters write gelu's cube as products, so the Pow comes
    // from code that calls pow(), which autocast runs in fp32.
    const bool code = list.propagation == Propagation::inputs && u.kind == "Gelu" &&
                      std::any_of(u.nodes.begin(), u.nodes.end(), [&](int n) { return g.nodes[at(n)].op == "Pow"; });
    if (!code && list.find("", u.kind)) add(std::move(u));
  }
  if (list.propagation != Propagation::inputs) return;
  for (Unit& u : find_calls(g)) {
    if (list.find("", u.kind == "Linear" ? "MatMul" : u.kind)) add(std::move(u));
  }
}

void connect(const SourceGraph& g, PlanGraph& out) {
  out.paint.resize(out.vertices.size());
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const SourceNode& n = g.nodes[i];
    const int to = out.vertex_of[i];
    for (size_t k = 0; to >= 0 && k < n.inputs.size(); ++k) {
      const int v = n.inputs[k];
      if (v < 0 || !is_float(out.types[at(v)]) || g.values[at(v)].producer < 0 || !is_data_input(n, k)) continue;
      const int from = out.vertex_of[at(g.values[at(v)].producer)];
      if (from < 0 || from == to) continue;
      out.paint[at(from)].out.push_back(to);
      out.paint[at(to)].in.push_back(from);
    }
  }
}

}  // namespace

PlanGraph make_plan_graph(const SourceGraph& g, const OpList& list) {
  PlanGraph out;
  out.types = value_types(g);
  out.carries = carries_data(g, out.types);
  find_eligible(g, out);
  choose_units(g, list, out);
  std::vector<int> unit_of(g.nodes.size(), -1), vertex_of_unit(out.units.size(), -1);
  for (size_t u = 0; u < out.units.size(); ++u) {
    for (const int n : out.units[u].nodes) unit_of[at(n)] = static_cast<int>(u);
  }
  out.vertex_of.assign(g.nodes.size(), -1);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (!out.eligible[i]) continue;
    int vertex = unit_of[i] < 0 ? -1 : vertex_of_unit[at(unit_of[i])];
    if (vertex < 0) {
      vertex = static_cast<int>(out.vertices.size());
      out.vertices.emplace_back().unit = unit_of[i];
      if (unit_of[i] >= 0) vertex_of_unit[at(unit_of[i])] = vertex;
    }
    out.vertex_of[i] = vertex;
    out.vertices[at(vertex)].nodes.push_back(static_cast<int>(i));
  }
  connect(g, out);
  return out;
}

}  // namespace amp
