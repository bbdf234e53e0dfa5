// The "normalizer" of a tokenizer.json: what is done to text before it is split.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/tokenizers/working_text.h"

namespace amp {

using TextStep = std::function<void(WorkingText&)>;

TextStep read_normalizer(const nlohmann::json& j);       // null: nothing is done
TextStep precompiled_step(const std::string& charsmap);  // SentencePiece's, as bytes
Finder read_pattern(const nlohmann::json& j);            // {"String": ...} or {"Regex": ...}

// f(code point, out): each character becomes those that f appends, in its place.
void map_chars(WorkingText& t, const std::function<void(uint32_t, std::vector<uint32_t>&)>& f);

}  // namespace amp
