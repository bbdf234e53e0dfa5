// Converts metrics to the JSON state of a checkpoint and back. The way back checks every member, because the text of a
// checkpoint may have been changed.
#include "trainer/loop/metrics_state.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_nesting.h"
#include "base/text.h"

namespace amp {

namespace {
using nlohmann::json;

// Converts a number to JSON, which cannot express non-finite numbers: NaN becomes null, infinities become texts.
json stored_number(double v) {
  if (std::isnan(v)) return nullptr;
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return v;
}

double number_of(const CheckedState& in, const std::string& key, const json& j) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (j.is_null()) return std::nan("");
  if (j == "inf" || j == "-inf") return j == "inf" ? infinity : -infinity;
  if (!j.is_number()) in.refuse(key, cat("is ", printable(j.dump()), ", expected a number"));
  return j.get<double>();
}

// Names are printed. So a name with characters that printable() would replace is refused.
std::string name_of(const CheckedState& in, const std::string& key, const json& j) {
  if (!j.is_string() || printable(j.get<std::string>()) != j.get<std::string>())
    in.refuse(key, cat("is ", printable(j.dump()), ", expected a name"));
  return j.get<std::string>();
}

json to_state(const MetricValues& values) {
  json out = json::array();
  for (const auto& [name, value] : values) out.push_back({name, stored_number(value)});
  return out;
}

MetricValues values_of_state(const CheckedState& in) {
  MetricValues out;
  for (const json& v : in.array("values")) {
    if (!v.is_array() || v.size() != 2) in.refuse("values", "holds no pairs of name and number");
    out.emplace_back(name_of(in, "values", v[0]), number_of(in, "values", v[1]));
  }
  return out;
}

// Returns the member "details". It must be valid JSON, because `eval` prints it.
std::string details_of_state(const CheckedState& in) {
  std::string text = in.text("details");
  if (!parse_json(text).is_object()) in.refuse("details", "is no JSON object");
  return text;
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

Metrics metrics_of_state(const CheckedState& in) {
  Metrics m;
  m.loss = number_of(in, "loss", in.any("loss"));
  m.samples = in.whole("samples", 0, kMostCount);
  m.values = values_of_state(in);
  if (in.has("brief")) m.brief = static_cast<size_t>(in.whole("brief", 0, kMostCount));
  if (in.has("details")) m.details = details_of_state(in);
  if (in.has("not_finite")) m.not_finite = in.whole("not_finite", 0, m.samples);
  if (in.has("group_column")) m.group_column = in.text("group_column");
  if (!in.has("groups")) return m;
  for (const json& g : in.array("groups")) {
    const CheckedState group(g.is_object() ? g : json::object(), in.path() + ".groups");
    m.groups.push_back({group.text("name"), group.whole("samples", 0, kMostCount), values_of_state(group)});
  }
  return m;
}

}  // namespace amp
