// Flags from a JSON or YAML file and from the environment, and the effective configuration as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/options.h"

namespace amp::cli {

// A file {"lr": 5e-5, "freeze": ["*.bias"], ...}: any spelling of a flag, // comments allowed, null means not given.
// Or what effective_config_json wrote, alone or inside a run.json: then each value keeps the precedence it had.
// Or a whole configuration of another trainer (tools/cli/other_trainers.h): what it has that means nothing here becomes
// a warning. A path that ends in .yaml or .yml is read as YAML.
// Unknown or repeated keys, and anything that is not such a file: usage error naming file and key.
std::vector<Assignment> read_config(const std::string& path, Verb verb, std::vector<std::string>& warnings);
std::vector<Assignment> parse_config(std::string_view text, const std::string& path, Verb verb,
                                     std::vector<std::string>& warnings);

// ONNX_AMP_<FLAG>=value. A list is one value or a JSON array. Empty values count as not given. Names close to a flag's
// become warnings, others are not ours to judge.
std::vector<Assignment> read_environment(const char* const* envp, Verb verb, std::vector<std::string>& warnings);

// {"verb": "train", "config": {flag: value}, "sources": {flag: where from, where not the default}}, for the verb's
// flags.
std::string effective_config_json(const Options& opts);

}  // namespace amp::cli
