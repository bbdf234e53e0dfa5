// Renders a conversation as one text and finds the byte ranges of it that a loss is computed for.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/language/chat_engine.h"

namespace amp {

enum class LossOn : uint8_t { all, answers, last_answer };

// Parses an array of {"role", "content"}, or converts ShareGPT's {"from", "value"} (human, gpt, system) to it. Throws
// E_DATA_CHAT (exit 5) with `where` for anything else.
nlohmann::ordered_json read_messages(std::string_view json, const std::string& where);

// Returns the text of a conversation and the byte ranges that a loss is computed for (RenderedChat::answers). Answers
// are the texts between {% generation %} and {% endgeneration %} if the template has them; otherwise what the template
// writes for each assistant message after the generation prompt. prompt: number of messages at the beginning for which
// no loss is computed, whatever their role. Throws E_CHAT_TEMPLATE if a template rewrites earlier messages when others
// follow, so that answers cannot be found.
RenderedChat render_conversation(const ChatEngine& chat, const nlohmann::ordered_json& messages,
                                 const nlohmann::ordered_json& tools, LossOn on, size_t prompt = 0);

}  // namespace amp
