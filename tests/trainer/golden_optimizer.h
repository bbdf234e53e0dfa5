// Golden runs of optimizers, as written by tests/data/trainer/make_optimizer*.py.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/update_rules.h"
#include "laid_out.h"

namespace amp::test {

// Returns the values of all tensors as one span of the layout. Values are first rounded to float32, so that runs in
// both precisions start with the same numbers.
template <class T>
std::vector<T> gather(const FlatLayout& layout, const nlohmann::json& tensors, double factor = 1) {
  std::vector<T> out(static_cast<size_t>(layout.size()));
  for (const Chunk& c : layout.chunks()) {
    const auto values = tensors.at(c.name).get<std::vector<double>>();
    for (size_t i = 0; i < values.size(); ++i)
      out[static_cast<size_t>(c.offset) + i] = static_cast<T>(static_cast<float>(values[i])) * static_cast<T>(factor);
  }
  return out;
}

// Returns the optimizer of a golden run with its settings, which have torch's names.
inline OptimizerConfig rule_of(const nlohmann::json& run) {
  OptimizerConfig o;
  o.rule = update_rule_from_name(run.at("kind"));
  std::map<std::string, double> given;
  for (const auto& [name, value] : run.at("options").items()) {
    if (name == "betas") {
      given["beta1"] = value[0];
      given["beta2"] = value[1];
    } else if (name != "lr" && name != "weight_decay" && name != "nesterov") {
      given[name] = value.is_boolean() ? value.get<bool>() : value.get<double>();
    }
  }
  o.settings = rule_settings(o.rule, given);
  o.weight_decay = run["options"].value("weight_decay", 0.0);
  return o;
}

}  // namespace amp::test
