// Finds the answers in a rendered conversation. Templates have no standard way to mark answers, so place_of() renders
// prefixes of the conversation and compares them with the whole text.
#include "data/language/conversation.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace amp {

using nlohmann::ordered_json;

namespace {

std::string role_of(const std::string& from) {
  if (from == "human") return "user";
  if (from == "gpt" || from == "bot" || from == "model") return "assistant";
  return from;
}

bool is_answer(const ordered_json& message) { return message["role"] == "assistant"; }

ordered_json first_of(const ordered_json& messages, size_t n) {
  return {messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(n)};
}

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

[[noreturn]] void no_place(const ChatEngine& chat, size_t message) {
  fail(Exit::data, "E_CHAT_TEMPLATE",
       cat("the chat template of '", printable(chat.name()),
           "' writes earlier messages otherwise once others follow: message ", message + 1, " has no fixed position"),
       "train only on the last answer (`train_on` last_answer) or on all (`train_on` all), or give a template with {% "
       "generation %} around answers (`chat_template`)");
}

// Returns the bytes of answer messages[i] in `full`. A template may write an answer differently when messages follow
// (Qwen3 drops its thoughts). Then the answer ends where the next message begins, whose text does not depend on the
// answer before it. An end-of-text token after the whole conversation (Phi-3.5) does not belong to a message.
std::pair<size_t, size_t> place_of(const ChatEngine& chat, const ordered_json& messages, size_t i,
                                   const ordered_json& tools, const std::string& full) {
  const std::string eos = chat.special("eos_token");
  const auto text = [&](const ordered_json& part) {
    std::string t = chat.render(part, false, tools).text;
    if (!eos.empty() && t.ends_with(eos) && !full.starts_with(t)) t.resize(t.size() - eos.size());
    return t;
  };
  const ordered_json before = first_of(messages, i);
  const std::string context = i == 0 ? std::string() : text(before);
  if (!full.starts_with(context)) no_place(chat, i);
  const std::string asked = i == 0 ? std::string() : chat.render(before, true, tools).text;
  const size_t begin = std::max(context.size(), common_prefix(asked, full));
  if (i + 1 == messages.size()) return {begin, full.size()};
  const std::string here = text(first_of(messages, i + 1));
  if (full.starts_with(here) && here.size() >= begin) return {begin, here.size()};
  const std::string with_next = text(first_of(messages, i + 2));
  ordered_json skipping = before;
  skipping.push_back(messages[i + 1]);
  const std::string without = text(skipping);
  if (!full.starts_with(with_next) || !without.starts_with(context)) no_place(chat, i);
  const std::string_view next = std::string_view(without).substr(context.size());
  if (!with_next.ends_with(next) || with_next.size() - next.size() < begin) no_place(chat, i);
  return {begin, with_next.size() - next.size()};
}

}  // namespace

ordered_json read_messages(std::string_view json, const std::string& where) {
  const auto refuse = [&](const std::string& fact) {
    fail(Exit::data, "E_DATA_CHAT", cat(where, ": ", fact),
         R"(a conversation is [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}])");
  };
  ordered_json messages = ordered_json::parse(json, nullptr, false);
  if (!messages.is_array() || messages.empty()) refuse("there are no messages");
  for (size_t i = 0; i < messages.size(); ++i) {
    ordered_json& m = messages[i];
    const std::string number = cat("message ", i + 1);
    if (!m.is_object()) refuse(cat(number, " is no object"));
    if (!m.contains("role") && m.contains("from") && m["from"].is_string())
      m = {{"role", role_of(m["from"])}, {"content", m.value("value", ordered_json(nullptr))}};
    if (!m.contains("role") || !m["role"].is_string()) refuse(cat(number, " has no \"role\""));
    const ordered_json content = m.value("content", ordered_json(nullptr));
    if (content.is_number() || content.is_boolean() || content.is_object())
      refuse(cat("the \"content\" of ", number, " is no text"));
    if (content.is_null() && !m.contains("tool_calls")) refuse(cat(number, " has no \"content\""));
  }
  return messages;
}

RenderedChat render_conversation(const ChatEngine& chat, const ordered_json& messages, const ordered_json& tools,
                                 LossOn on, size_t prompt) {
  RenderedChat full = chat.render(messages, false, tools);
  if (on == LossOn::all) {
    full.answers = {{0, full.text.size()}};
    return full;
  }
  if (prompt > 0) {  // the loss is computed for everything after the prompt
    const std::string text = chat.render(first_of(messages, prompt), !is_answer(messages[prompt - 1]), tools).text;
    full.answers = {{common_prefix(text, full.text), full.text.size()}};
    return full;
  }
  if (!chat.marks_answers()) {
    full.answers.clear();
    for (size_t i = messages.size(); i-- > 0;) {
      if (!is_answer(messages[i])) continue;
      full.answers.insert(full.answers.begin(), place_of(chat, messages, i, tools, full.text));
      if (on == LossOn::last_answer) break;
    }
  }
  if (on == LossOn::last_answer && !full.answers.empty()) full.answers = {full.answers.back()};
  return full;
}

}  // namespace amp
