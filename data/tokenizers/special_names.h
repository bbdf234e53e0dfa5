// Which tokens of a vocabulary are special: as the files beside it say, else by the names that models give them.
#pragma once

#include <string>

#include "data/tokenizers/pipeline.h"

namespace amp {

// folder: where tokenizer_config.json and special_tokens_map.json may lie.
SpecialIds find_specials(const PipelineParts& parts, const std::string& folder);
// A value of tokenizer_config.json as text; empty: the file or the key is not there.
std::string config_text(const std::string& folder, const std::string& key);

}  // namespace amp
