// The "normalizer" of a tokenizer.json: changes text before it is split.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/tokenizers/normalized_string.h"

namespace amp {

using TextStep = std::function<void(NormalizedString&)>;

TextStep read_normalizer(const nlohmann::json& j);       // returns an empty function if j is null
TextStep precompiled_step(const std::string& charsmap);  // charsmap: bytes of SentencePiece's compiled map
Finder read_pattern(const nlohmann::json& j);            // reads {"String": ...} or {"Regex": ...}

// Replaces each character by the characters that f(code point, out) appends.
void map_chars(NormalizedString& t, const std::function<void(uint32_t, std::vector<uint32_t>&)>& f);

}  // namespace amp
