// The "pre_tokenizer" of a tokenizer.json: how text is split before a model cuts the parts into tokens.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "data/tokenizers/normalizers.h"

namespace amp {

TextStep read_pre_tokenizer(const nlohmann::json& j);  // null: nothing is done

// SentencePiece's: spaces become the replacement, one stands before the text, and parts begin with it.
enum class Prepend : uint8_t { always, first, never };
TextStep metaspace(const std::string& replacement, Prepend prepend, bool split);
TextStep byte_level(bool add_prefix_space, bool use_regex);

}  // namespace amp
