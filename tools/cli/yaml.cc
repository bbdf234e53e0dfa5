// Converts YAML to JSON with yaml-cpp.
#include <yaml-cpp/yaml.h>

#include <optional>

#include "base/error.h"
#include "base/json_nesting.h"
#include "base/number_text.h"
#include "base/text.h"
#include "tools/cli/other_trainers.h"

namespace amp::cli {
namespace {

using Json = nlohmann::ordered_json;

// Limits on the number of values and on nesting, because YAML aliases may multiply values.
constexpr int kMostValues = 100'000, kDeepest = 50;

struct Budget {
  int values = kMostValues;
  int64_t keys = kMostJsonKeys;
};

// Converts scalars. Plain scalars are converted by YAML 1.1's rules, by which PyYAML writes them; quoted ones stay
// text.
Json scalar(const YAML::Node& node) {
  const std::string& s = node.Scalar();
  if (node.Tag() == "!") return s;
  if (s.empty() || s == "~" || s == "null" || s == "Null" || s == "NULL") return nullptr;
  if (s == "true" || s == "True" || s == "TRUE") return true;
  if (s == "false" || s == "False" || s == "FALSE") return false;
  if (const auto n = parse_integer(s)) return *n;
  if (const auto x = parse_number(s)) return *x;
  return s;
}

Json convert(const YAML::Node& node, int depth, Budget& budget) {
  if (depth > kDeepest || --budget.values < 0) throw std::length_error("too many values, or too deep");
  if (node.IsSequence()) {
    Json out = Json::array();
    for (const auto& element : node) out.push_back(convert(element, depth + 1, budget));
    return out;
  }
  if (node.IsMap()) {
    Json out = Json::object();
    for (const auto& pair : node) {
      if (--budget.keys < 0) throw std::length_error(cat("more than ", kMostJsonKeys, " keys"));
      const std::string key = pair.first.as<std::string>();
      if (out.contains(key)) throw std::invalid_argument(cat("key '", key, "' is given twice"));
      out[key] = convert(pair.second, depth + 1, budget);
    }
    return out;
  }
  return node.IsScalar() ? scalar(node) : Json();
}

}  // namespace

Json yaml_to_json(const std::string& text, const std::string& path) {
  try {
    Budget budget;
    return convert(YAML::Load(text), 0, budget);
  } catch (const std::exception& e) {
    fail(Exit::usage, "E_USAGE",
         cat("configuration file '", printable(path), "': not usable YAML: ", printable(e.what())));
  }
}

}  // namespace amp::cli
