// Token ids of the texts that a language model continues, and of those that end its answer.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "data/language/chat_template.h"
#include "data/tokenizer.h"

namespace amp {

struct RunSpec;

// Tokenizes a prompt with the tokenizer's special tokens. An empty one becomes the token that begins a text. Throws
// E_USAGE if there is no such token.
std::vector<int32_t> prompt_ids(const std::string& prompt, const Tokenizer& tokenizer);

bool is_conversation(const std::string& prompt);  // true for a JSON array of messages

// Tokenizes a conversation, followed by what the template writes before an answer. prompt: the text of a user's
// message, or a JSON array of messages. Throws E_CHAT_TEMPLATE_MISSING if chat is null, E_DATA_CHAT for a JSON array
// that is not a conversation, and E_CHAT_TEMPLATE.
std::vector<int32_t> chat_prompt_ids(const std::string& prompt, const Tokenizer& tokenizer, const ChatTemplate* chat);

// Returns the ids of the tokens that end a text: the tokenizer's end-of-text token, and `eos_token_id` of
// genai_config.json (in "model") and generation_config.json in the folders of the model and its tokenizer. Files that
// cannot be parsed are ignored.
std::set<int32_t> end_tokens(const RunSpec& spec, const Tokenizer& tokenizer);

}  // namespace amp
