// Renders chat templates with llama.cpp's Jinja engine, without limits: a template can overflow the stack, run without
// end and fill the memory. ChatTemplate (chat_template.h) runs this class in a process with limits.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace amp {

struct RenderedChat {
  std::string text;
  std::vector<std::pair<size_t, size_t>> answers;  // byte ranges in `text` of {% generation %} ... {% endgeneration %}
};

// Fails with E_CHAT_TEMPLATE (exit 5).
[[noreturn]] void refuse_template(const std::string& name, const std::string& why);

class ChatEngine {
 public:
  ChatEngine(const std::string& source, std::string name, std::map<std::string, std::string> specials);
  ~ChatEngine();
  // Returns the rendered messages. tools: null if there are none. Throws E_CHAT_TEMPLATE with the template's own
  // message, for example if roles do not alternate.
  RenderedChat render(const nlohmann::ordered_json& messages, bool add_generation_prompt,
                      const nlohmann::ordered_json& tools) const;
  bool marks_answers() const { return marks_answers_; }  // true if the template has {% generation %}
  const std::string& name() const { return name_; }
  std::string special(const std::string& token) const;  // value of a token such as "eos_token"; empty: none

 private:
  struct Program;
  std::string source_, name_;
  std::map<std::string, std::string> specials_;
  bool marks_answers_ = false;
  std::unique_ptr<Program> program_;
};

}  // namespace amp
