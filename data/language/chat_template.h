// Texts that language models learn: plain ones, prompts with completions, conversations. This file: the template that
// makes one text of a conversation, Jinja as tokenizer_config.json publishes it, rendered as transformers'
// apply_chat_template does.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer.h"

namespace amp {

struct RenderedChat {
  std::string text;
  std::vector<std::pair<size_t, size_t>> answers;  // bytes, of the blocks {% generation %} ... {% endgeneration %}
};

class ChatTemplate {
 public:
  // specials: what bos_token and the like stand for. E_CHAT_TEMPLATE (exit 5), naming `name`, for what is no template.
  ChatTemplate(std::string source, std::string name, std::map<std::string, std::string> specials);
  ~ChatTemplate();

  // tools: null where there are none. E_CHAT_TEMPLATE with what the template said, such as of roles that do not
  // alternate. Any number of threads may render.
  RenderedChat render(const nlohmann::ordered_json& messages, bool add_generation_prompt,
                      const nlohmann::ordered_json& tools = nullptr) const;
  bool marks_answers() const { return marks_answers_; }  // it has {% generation %}
  const std::string& name() const { return name_; }
  std::string special(const std::string& token) const;  // what "eos_token" stands for; empty: nothing

 private:
  struct Programs;
  std::string source_, name_;
  std::map<std::string, std::string> specials_;
  bool marks_answers_ = false;
  std::unique_ptr<Programs> programs_;
};

// `file`, a template or a JSON file with a "chat_template"; empty: chat_template.jinja or tokenizer_config.json in
// `folder`. Null: there is none. Special tokens are those of the folder's tokenizer_config.json, else the tokenizer's.
std::shared_ptr<const ChatTemplate> open_chat_template(const std::string& file, const std::string& folder,
                                                       const Tokenizer& tokenizer);

}  // namespace amp
