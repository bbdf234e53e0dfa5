// Reads flags from a JSON or YAML file and from the environment; writes the effective configuration as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/options.h"

namespace amp::cli {

// Returns the flags that a configuration file sets. The file is one of these:
//   {"lr": 5e-5, "freeze": ["*.bias"], ...}: any spelling of a flag; // comments are allowed; null means not given
//   the output of effective_config_json, also inside a run.json: each value keeps the precedence of its recorded source
//   a configuration of another trainer (other_trainers.h): settings without a counterpart become a warning
// A path ending in .yaml or .yml is read as YAML. Unknown or repeated keys and other content are usage errors that name
// file and key.
std::vector<Assignment> read_config(const std::string& path, Verb verb, std::vector<std::string>& warnings);
std::vector<Assignment> parse_config(std::string_view text, const std::string& path, Verb verb,
                                     std::vector<std::string>& warnings);

// Reads environment variables ONNX_AMP_<FLAG>=value. The value of a list flag is one element or a JSON array. Empty
// values count as not given. A name similar to a flag's causes a warning; other unknown names are ignored.
std::vector<Assignment> read_environment(const char* const* envp, Verb verb, std::vector<std::string>& warnings);

// Returns the verb's flags as JSON: {"verb": "train", "config": {flag: value}, "sources": {flag: source}}.
std::string effective_config_json(const Options& opts);

}  // namespace amp::cli
