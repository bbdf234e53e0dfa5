// Stores Features as JSON and reads it. The format has a version; a file of another version is refused, because
// features with other statistics would compute wrong predictions without an error.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_nesting.h"
#include "base/text.h"
#include "data/features/features.h"
#include "data/features/forms.h"

namespace amp {

namespace {
using OrderedJson = nlohmann::ordered_json;
constexpr int kVersion = 1;

std::string file_name(const std::string& path) {
  const size_t at = path.rfind('/');
  return at == std::string::npos ? path : path.substr(at + 1);
}

// Formats a join without the folder, so that the model does not contain paths of the training machine.
std::string text_of(const Join& join) {
  std::vector<std::string> keys;
  for (const auto& [here, there] : join.keys) keys.push_back(here == there ? here : here + "=" + there);
  return file_name(join.file) + ":" + amp::join(keys, ",");
}
}  // namespace

std::string Features::json() const {
  OrderedJson j = {{"version", kVersion}, {"categorical", OrderedJson::array()}, {"continuous", OrderedJson::array()}};
  for (const CategoryMap& c : categories) j["categorical"].push_back({{"column", c.column}, {"values", c.values}});
  for (const NumberMap& n : numbers) {
    OrderedJson x = {{"column", n.column},
                     {"fill", n.fill},
                     {"missing", n.missing},
                     {"indicator", n.indicator},
                     {"scaling", scaling_names().name_of(n.scaling)}};
    if (n.scaling == Scaling::standard) {
      x["mean"] = n.mean;
      x["scale"] = n.scale;
    }
    if (n.scaling == Scaling::quantiles) x["quantiles"] = n.quantiles;
    j["continuous"].push_back(std::move(x));
  }
  j["date"] = dates;
  j["join"] = OrderedJson::array();
  for (const Join& join : joins) j["join"].push_back(text_of(join));
  j["target"] = {{"column", target}, {"transform", target_names().name_of(target_transform.form)}};
  if (target_transform.form == TargetForm::standard) {
    j["target"]["mean"] = target_transform.mean;
    j["target"]["scale"] = target_transform.scale;
  }
  return j.dump();
}

Features Features::parse(const std::string& text) {
  const auto refuse = [](const std::string& why) {
    fail(Exit::model, "E_FEATURES", cat("metadata_props 'features' cannot be read: ", why),
         "train the model again with this version");
  };
  Features out;
  try {
    if (const std::string excess = json_excess(text, true); !excess.empty()) refuse("it " + excess);
    const OrderedJson j = OrderedJson::parse(text);
    if (j.at("version").get<int>() != kVersion) refuse(cat("it is of version ", j.at("version").dump()));
    for (const OrderedJson& c : j.at("categorical"))
      out.categories.push_back({c.at("column").get<std::string>(), c.at("values").get<std::vector<std::string>>()});
    for (const OrderedJson& n : j.at("continuous")) {
      NumberMap m{n.at("column").get<std::string>(), n.at("fill").get<double>(), n.at("missing").get<bool>(),
                  n.at("indicator").get<bool>(), scaling_names().value_of(n.at("scaling").get<std::string>())};
      if (m.scaling == Scaling::standard) {
        m.mean = n.at("mean").get<double>();
        m.scale = n.at("scale").get<double>();
        if (m.scale == 0) refuse("a scale is 0");
      }
      if (m.scaling == Scaling::quantiles) m.quantiles = n.at("quantiles").get<std::vector<double>>();
      out.numbers.push_back(std::move(m));
    }
    out.dates = j.at("date").get<std::vector<std::string>>();
    for (const OrderedJson& t : j.at("join")) out.joins.push_back(parse_join(t.get<std::string>()));
    const OrderedJson& t = j.at("target");
    out.target = t.at("column").get<std::string>();
    out.target_transform.form = target_names().value_of(t.at("transform").get<std::string>());
    if (out.target_transform.form == TargetForm::standard) {
      out.target_transform.mean = t.at("mean").get<double>();
      out.target_transform.scale = t.at("scale").get<double>();
    }
  } catch (const nlohmann::json::exception& e) {
    refuse(e.what());
  }
  return out;
}

}  // namespace amp
