// Reads configuration files of other trainers: Hugging Face's TrainingArguments (to_json_string() or
// training_args.json) and timm's args.yaml. docs/coming_from.md has the tables.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace amp::cli {

struct OtherTrainer {
  std::string name;                     // for example "timm's train.py"
  nlohmann::ordered_json values;        // keys: names of this program's flags
  std::vector<std::string> not_used{};  // keys that are set but have no counterpart, in the file's order
};

// Translates another trainer's configuration. Returns nullopt if `file` (an object) is not a complete configuration. A
// file with only some of the keys is read as flags instead, because these keys are also spellings of flags.
std::optional<OtherTrainer> of_other_trainer(const nlohmann::ordered_json& file);

// Converts YAML made of scalars, lists and maps. Throws a usage error (E_USAGE) with `path` for any other YAML.
nlohmann::ordered_json yaml_to_json(const std::string& text, const std::string& path);

}  // namespace amp::cli
