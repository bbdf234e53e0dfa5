#include "trainer/loop/metrics_state.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace amp {

namespace {
using nlohmann::json;

// JSON has no non-finite numbers: NaN is null, the infinities are texts.
json stored_number(double v) {
  if (std::isnan(v)) return nullptr;
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return v;
}

double number_of(const json& j) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (j.is_null()) return std::nan("");
  if (j.is_string()) return j.get<std::string>() == "-inf" ? -infinity : infinity;
  return j.get<double>();
}

json to_state(const MetricValues& values) {
  json out = json::array();
  for (const auto& [name, value] : values) out.push_back({name, stored_number(value)});
  return out;
}

MetricValues values_of_state(const json& j) {
  MetricValues out;
  for (const json& v : j) out.emplace_back(v.at(0).get<std::string>(), number_of(v.at(1)));
  return out;
}
}  // namespace

json to_state(const Metrics& m) {
  json out = {{"loss", stored_number(m.loss)}, {"samples", m.samples}, {"values", to_state(m.values)}};
  if (m.brief != Metrics().brief) out["brief"] = m.brief;
  if (!m.details.empty()) out["details"] = m.details;
  if (m.not_finite != 0) out["not_finite"] = m.not_finite;
  if (m.group_column.empty()) return out;
  out["group_column"] = m.group_column;
  out["groups"] = json::array();
  for (const GroupValues& g : m.groups)
    out["groups"].push_back({{"name", g.name}, {"samples", g.samples}, {"values", to_state(g.values)}});
  return out;
}

Metrics metrics_of_state(const json& j) {
  Metrics m;
  m.loss = number_of(j.at("loss"));
  m.samples = j.at("samples").get<int64_t>();
  m.values = values_of_state(j.at("values"));
  m.brief = j.value("brief", m.brief);
  m.details = j.value("details", m.details);
  m.not_finite = j.value("not_finite", m.not_finite);
  m.group_column = j.value("group_column", m.group_column);
  for (const json& g : j.value("groups", json::array()))
    m.groups.push_back(
        {g.at("name").get<std::string>(), g.at("samples").get<int64_t>(), values_of_state(g.at("values"))});
  return m;
}

}  // namespace amp
