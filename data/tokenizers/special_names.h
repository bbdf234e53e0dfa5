// Finds the special tokens of a vocabulary: by the configuration files, or else by the names that model families use.
#pragma once

#include <string>

#include "data/tokenizers/pipeline.h"

namespace amp {

// Returns the special tokens' ids. folder: may hold tokenizer_config.json and special_tokens_map.json.
SpecialIds find_specials(const PipelineParts& parts, const std::string& folder);
// Returns the value of a key in tokenizer_config.json or special_tokens_map.json as text; empty if there is none.
std::string config_text(const std::string& folder, const std::string& key);

}  // namespace amp
