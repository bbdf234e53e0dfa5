// Renders plans. Names come from model files and are untrusted: quoted() escapes them for Graphviz, and inert() for a
// script element of the embedded page (precision/plan_page.html).
#include "precision/plan_view.h"

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "precision/presets.h"

namespace amp {

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// Returns the pairs of nodes between which a value flows, each pair once.
std::set<std::pair<int, int>> edges_of(const SourceGraph& g) {
  std::set<std::pair<int, int>> out;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    for (const int v : g.nodes[i].inputs) {
      const int from = v < 0 ? -1 : g.values[static_cast<size_t>(v)].producer;
      if (from >= 0) out.emplace(from, static_cast<int>(i));
    }
  }
  return out;
}

const char* color(const Decision& d) {
  if (d.cls == "not-float") return "#dfe2e6";
  return d.compute == Compute::f32 ? "#f5cfa8" : d.compute == Compute::f16 ? "#b5e0c7" : "#b3d7ee";
}

void replace(std::string& text, const std::string& mark, const std::string& by) {
  const size_t at = text.find(mark);
  check(at != std::string::npos, cat("the page has no ", mark));
  text.replace(at, mark.size(), by);
}

// Escapes '<', so that no text can end the script element or start an HTML comment.
std::string inert(const std::string& json) {
  std::string out;
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string plan_to_dot(const SourceGraph& g, const PrecisionPlan& plan) {
  check(plan.nodes.size() == g.nodes.size(), "a plan belongs to the graph it was made for");
  std::ostringstream out;
  out << "digraph plan {\n  label=" << quoted(cat("op-list ", plan.list.name, ", graph ", plan.fingerprint))
      << ";\n  node [shape=box, style=filled, fontname=\"Helvetica\", fontsize=10];\n";
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Decision& d = plan.nodes[i];
    const std::string type = d.cls == "not-float" ? "" : cat(", ", name_of(d.compute));
    std::string tip = d.cls;
    if (!d.pass.empty()) tip += cat("; ", d.pass);
    if (!d.rule.empty()) tip += cat("; ", d.rule);
    out << "  n" << i << " [label=" << quoted(g.nodes[i].op + type) << ", fillcolor=\"" << color(d)
        << "\", tooltip=" << quoted(cat(g.nodes[i].name, ": ", tip)) << "];\n";
  }
  for (const auto& [from, to] : edges_of(g)) {
    const Decision &a = plan.nodes[static_cast<size_t>(from)], &b = plan.nodes[static_cast<size_t>(to)];
    const bool border = a.cls != "not-float" && b.cls != "not-float" && a.compute != b.compute;
    out << "  n" << from << " -> n" << to << (border ? " [color=red, style=dashed]" : "") << ";\n";
  }
  out << "}\n";
  return out.str();
}

std::string plan_to_html(const SourceGraph& g, const std::string& plan_json) {
  std::string page;
  for (const EmbeddedFile& f : embedded_op_lists()) {
    if (f.name == "plan_page.html") page = f.text;
  }
  nlohmann::json edges = nlohmann::json::array();
  for (const auto& [from, to] : edges_of(g)) edges.push_back({from, to});
  replace(page, "@EDGES@", edges.dump());
  replace(page, "@PLAN@", inert(nlohmann::ordered_json::parse(plan_json).dump()));
  return page;
}

}  // namespace amp
