// A tokenizer from the JSON of a tokenizer.json; readers of other files write theirs as such JSON.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/tokenizer.h"

namespace amp {

// folder: where tokenizer_config.json may lie. Throws nlohmann's exceptions for another structure.
std::unique_ptr<Tokenizer> tokenizer_from_json(const nlohmann::json& j, const std::string& folder);

}  // namespace amp
