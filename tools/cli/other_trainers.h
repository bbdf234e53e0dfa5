// Configuration files of other trainers, read as they are: Hugging Face's TrainingArguments (to_json_string(), or
// training_args.json) and timm's args.yaml. docs/coming_from.md has the tables.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace amp::cli {

struct OtherTrainer {
  std::string name;                     // "timm's train.py"
  nlohmann::ordered_json values;        // by names that our own configuration files know
  std::vector<std::string> not_used{};  // keys that are set and have no meaning here, in the file's order
};

// Nothing where `file` (an object) is not a whole configuration of one of them: a few of their names alone are
// spellings of our own settings.
std::optional<OtherTrainer> of_other_trainer(const nlohmann::ordered_json& file);

// Values of a YAML file of scalars, lists and maps. Usage error (E_USAGE) naming `path` for anything else.
nlohmann::ordered_json yaml_to_json(const std::string& text, const std::string& path);

}  // namespace amp::cli
