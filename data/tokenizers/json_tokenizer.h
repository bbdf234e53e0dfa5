// Makes a tokenizer from the JSON of a tokenizer.json. Readers of other formats convert theirs to such JSON.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/tokenizer.h"

namespace amp {

// Makes the tokenizer. folder: may hold tokenizer_config.json. Throws nlohmann's exceptions if `j` has another form.
std::unique_ptr<Tokenizer> tokenizer_from_json(const nlohmann::json& j, const std::string& folder);

}  // namespace amp
