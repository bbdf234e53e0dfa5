// A conversation as one text, with the parts of it that are to be learnt.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/language/chat_template.h"

namespace amp {

enum class LossOn : uint8_t { all, answers, last_answer };

// Of an array of {"role", "content"}, or of ShareGPT's {"from", "value"} with human, gpt and system, the first form.
// E_DATA_CHAT (exit 5) for anything else, `where` before it.
nlohmann::ordered_json read_messages(std::string_view json, const std::string& where);

// The text of a conversation, and the bytes of it that the loss is on. Answers are what lies between {% generation %}
// and {% endgeneration %} where the template has them; else what the template writes of each message of the assistant,
// behind what add_generation_prompt writes. prompt: the first messages, that are none whatever their role.
// E_CHAT_TEMPLATE for a template that writes earlier messages otherwise once others follow, so that answers have no
// place.
RenderedChat render_conversation(const ChatTemplate& chat, const nlohmann::ordered_json& messages,
                                 const nlohmann::ordered_json& tools, LossOn on, size_t prompt = 0);

}  // namespace amp
