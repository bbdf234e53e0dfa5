// Writes plans. The JSON keys must match those that op_list_json.cc reads. Order and formatting are fixed, so equal
// plans give equal bytes.
#include "precision/plan_io.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/text.h"

namespace amp {

using OrderedJson = nlohmann::ordered_json;

static OrderedJson rule_to_json(const PrecisionRule& rule) {
  OrderedJson out = OrderedJson::object();
  const std::pair<const char*, const std::string*> fields[] = {
      {"op", &rule.op}, {"node", &rule.node}, {"scope", &rule.scope}, {"tensor", &rule.tensor}, {"param", &rule.param}};
  for (const auto& [key, text] : fields) {
    if (!text->empty()) out[key] = *text;
  }
  out["precision"] = name_of(rule.precision);
  if (!rule.why.empty()) out["why"] = rule.why;
  out["source"] = rule.source;
  return out;
}

static OrderedJson loss_scale_to_json(const LossScaleConfig& c) {
  static constexpr const char* modes[] = {"dynamic", "static", "off"};
  const auto real = [](double v) { return std::isinf(v) ? OrderedJson("inf") : OrderedJson(v); };
  return {{"mode", modes[static_cast<size_t>(c.mode)]},
          {"init", c.init},
          {"growth_factor", c.growth_factor},
          {"backoff_factor", c.backoff_factor},
          {"growth_interval", c.growth_interval},
          {"min", c.min},
          {"max", real(c.max)},
          {"hysteresis", c.hysteresis}};
}

// Returns the name of a type in plans: fp32, fp16, bf16, or name_of() for other types.
static std::string type_text(DType t) {
  return std::string(t == DType::f32 || is_low(t) ? name_of(compute_of(t)) : name_of(t));
}

static OrderedJson casts_to_json(const std::vector<CastCost>& casts) {
  OrderedJson out = OrderedJson::array();
  for (const CastCost& c : casts) {
    out.push_back({{"from", type_text(c.from)},
                   {"to", type_text(c.to)},
                   {"of", c.backward ? "gradient"
                          : c.weight ? "weight"
                                     : "value"},
                   {"bytes", c.bytes}});
  }
  return out;
}

static OrderedJson cost_to_json(const PlanCost& cost) {
  int64_t casts = 0, cast_bytes = 0, weights = 0, weight_bytes = 0;
  for (const CastCost& c : cost.casts()) {
    ++(c.weight ? weights : casts);
    (c.weight ? weight_bytes : cast_bytes) += c.bytes;
  }
  return {{"shapes", cost.shapes},   {"stored_bytes", cost.stored_bytes()},
          {"casts", casts},          {"cast_bytes", cast_bytes},
          {"weight_casts", weights}, {"weight_cast_bytes", weight_bytes}};
}

std::string plan_to_json(const SourceGraph& g, const PrecisionPlan& plan, const PlanCost* cost) {
  check(plan.nodes.size() == g.nodes.size(), "a plan belongs to the graph it was made for");
  OrderedJson out;
  out["version"] = 1;
  out["extends"] = "none";
  out["dtype"] = name_of(compute_of(plan.low));
  out["propagation"] = plan.list.propagation == Propagation::paint ? "paint" : "inputs";
  for (const OpClass c : {OpClass::allow, OpClass::infer, OpClass::deny, OpClass::clear}) {
    OrderedJson& ops = out[std::string(name_of(c))] = OrderedJson::array();
    for (const auto& [op, entry] : plan.list.classes) {
      if (entry.cls == c) ops.push_back(op);
    }
  }
  out["rules"] = OrderedJson::array();
  for (const PrecisionRule& rule : plan.list.rules) out["rules"].push_back(rule_to_json(rule));
  out["loss_scale"] = loss_scale_to_json(plan.list.loss_scale);
  out["graph"] = plan.fingerprint;
  out["nodes"] = OrderedJson::array();
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Decision& d = plan.nodes[i];
    out["nodes"].push_back({{"name", g.nodes[i].name},
                            {"op", g.nodes[i].op},
                            {"compute", name_of(d.compute)},
                            {"class", d.cls},
                            {"rule", d.rule},
                            {"pass", d.pass}});
    if (!cost) continue;
    OrderedJson& node = out["nodes"].back();
    node["storage"] = OrderedJson::array();
    for (const DType t : cost->nodes.at(i).storage) node["storage"].push_back(type_text(t));
    node["bytes"] = cost->nodes[i].bytes;
    node["casts"] = casts_to_json(cost->nodes[i].casts);
  }
  if (cost) out["cost"] = cost_to_json(*cost);
  out["warnings"] = plan.warnings;
  // Names in a model file may contain bytes that are not UTF-8; the handler replaces such bytes.
  return out.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string explain_plan(const SourceGraph& g, const PrecisionPlan& plan, bool all) {
  check(plan.nodes.size() == g.nodes.size(), "a plan belongs to the graph it was made for");
  // Counts the nodes and finds the widths of the columns.
  std::map<std::string, int> by_compute, by_pass;
  size_t name_width = 4, op_width = 2, pass_width = 4;
  const auto listed = [&](size_t i) { return all || plan.nodes[i].cls != "not-float"; };
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Decision& d = plan.nodes[i];
    if (d.cls != "not-float") ++by_compute[std::string(name_of(d.compute))];
    ++by_pass[d.pass];
    if (!listed(i)) continue;
    name_width = std::max(name_width, printable(g.nodes[i].name).size());
    op_width = std::max(op_width, printable(g.nodes[i].op).size());
    pass_width = std::max(pass_width, d.pass.size());
  }
  std::ostringstream out;
  out << "op-list " << plan.list.name << ", 16-bit type " << name_of(compute_of(plan.low)) << ", graph "
      << plan.fingerprint << "\nnodes:";
  for (const auto& [compute, n] : by_compute) out << ' ' << compute << ' ' << n;
  out << "\ndecided by:";
  const char* separator = " ";
  for (const auto& [pass, n] : by_pass) {
    out << separator << pass << ' ' << n;
    separator = ", ";
  }
  out << "\n\n" << std::left;
  const auto column = [&](size_t width, const std::string& text) {
    out << std::setw(static_cast<int>(width) + 2) << text;
  };
  column(name_width, "node");
  column(op_width, "op");
  column(5, "type");
  column(9, "class");
  column(pass_width, "pass");
  out << "rule\n";
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (!listed(i)) continue;
    const Decision& d = plan.nodes[i];
    column(name_width, printable(g.nodes[i].name));
    column(op_width, printable(g.nodes[i].op));
    column(5, d.cls == "not-float" ? "-" : std::string(name_of(d.compute)));
    column(9, d.cls);
    column(pass_width, d.pass);
    out << d.rule << '\n';
  }
  for (const std::string& w : plan.warnings) out << "warning: " << printable(w) << '\n';
  return out.str();
}

}  // namespace amp
