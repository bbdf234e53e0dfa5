// ChatTemplate: renders a conversation as text, as transformers' apply_chat_template does. Templates are written in
// Jinja and published in tokenizer_config.json or chat_template.jinja.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "data/language/conversation.h"
#include "data/tokenizer.h"

namespace amp {

class ChatTemplate {
 public:
  // specials: values of bos_token, eos_token, ... Throws E_CHAT_TEMPLATE (exit 5) with `name` for an invalid template,
  // and for one that exceeds the limits of its helper process (base/limited_process.h).
  ChatTemplate(std::string source, std::string name, std::map<std::string, std::string> specials);
  ~ChatTemplate();

  // Returns the rendered messages. tools: null if there are none. Throws E_CHAT_TEMPLATE with the template's own
  // message, for example if roles do not alternate. Safe to call from several threads.
  RenderedChat render(const nlohmann::ordered_json& messages, bool add_generation_prompt,
                      const nlohmann::ordered_json& tools = nullptr) const;
  // Runs render_conversation() (data/language/conversation.h) in a helper process.
  RenderedChat conversation(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools, LossOn on,
                            size_t prompt) const;
  bool marks_answers() const { return marks_answers_; }  // true if the template has {% generation %}
  const std::string& name() const { return name_; }

 private:
  struct Processes;
  std::string name_;
  bool marks_answers_ = false;
  std::unique_ptr<Processes> processes_;
};

// Opens `file`, a template or a JSON file with "chat_template"; empty: chat_template.jinja or tokenizer_config.json in
// `folder`. Returns null if there is none. Special tokens are those of the folder's tokenizer_config.json, else those
// of the tokenizer.
std::shared_ptr<const ChatTemplate> open_chat_template(const std::string& file, const std::string& folder,
                                                       const Tokenizer& tokenizer);

}  // namespace amp
