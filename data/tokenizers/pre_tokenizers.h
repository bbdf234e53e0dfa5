// The "pre_tokenizer" of a tokenizer.json: splits text before the model cuts the parts into tokens.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "data/tokenizers/normalizers.h"

namespace amp {

TextStep read_pre_tokenizer(const nlohmann::json& j);  // returns an empty function if j is null

// SentencePiece's pre-tokenizer: replaces spaces, puts a replacement before the text, and splits so that each part
// begins with the replacement.
enum class Prepend : uint8_t { always, first, never };
TextStep metaspace(const std::string& replacement, Prepend prepend, bool split);
TextStep byte_level(bool add_prefix_space, bool use_regex);

}  // namespace amp
