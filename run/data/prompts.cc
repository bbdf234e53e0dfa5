#include "run/data/prompts.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json_nesting.h"
#include "data/language/conversation.h"
#include "run/data/text_settings.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void add_ends(const json& object, const Tokenizer& tokenizer, std::set<int32_t>& out) {
  if (!object.is_object() || !object.contains("eos_token_id")) return;
  const json& ids = object["eos_token_id"];
  for (const json& id : ids.is_array() ? ids : json::array({ids})) {
    if (id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(tokenizer.size()))
      out.insert(id.get<int32_t>());
  }
}

}  // namespace

std::vector<int32_t> prompt_ids(const std::string& prompt, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = tokenizer.encode(prompt).ids;
  const SpecialIds& special = tokenizer.special();
  if (ids.empty() && special.bos >= 0) ids = {special.bos};
  if (ids.empty() && special.eos >= 0) ids = {special.eos};
  if (ids.empty())
    fail(Exit::usage, "E_USAGE", "an empty prompt, and the vocabulary has no token that a text begins with",
         "give `prompt` at least a word");
  return ids;
}

bool is_conversation(const std::string& prompt) {
  const json parsed = parse_json(prompt);
  return parsed.is_array() && !parsed.empty() && parsed[0].is_object();
}

std::vector<int32_t> chat_prompt_ids(const std::string& prompt, const Tokenizer& tokenizer, const ChatTemplate* chat) {
  if (!chat)
    fail(Exit::usage, "E_CHAT_TEMPLATE_MISSING", "a chat prompt, but the tokenizer's folder has no chat template",
         "give it with `chat_template` FILE: a Jinja file, or a tokenizer_config.json");
  const nlohmann::ordered_json conversation =
      is_conversation(prompt) ? read_messages(prompt, "the prompt")
                              : nlohmann::ordered_json::array({{{"role", "user"}, {"content", prompt}}});
  std::vector<int32_t> ids;
  for (const Piece& p : tokenizer.pieces(chat->render(conversation, true).text)) ids.push_back(p.id);
  if (ids.empty())
    fail(Exit::data, "E_CHAT_TEMPLATE", "the chat template writes nothing for the prompt", "give another `prompt`");
  return ids;
}

std::set<int32_t> end_tokens(const RunSpec& spec, const Tokenizer& tokenizer) {
  std::set<int32_t> out;
  if (tokenizer.special().eos >= 0) out.insert(tokenizer.special().eos);
  std::error_code error;
  const auto read = [&](const fs::path& path) {
    return fs::is_regular_file(path, error) ? parse_json(read_file(path.string()).text()) : json();
  };
  for (const fs::path folder : config_folders(spec)) {
    add_ends(read(folder / "generation_config.json"), tokenizer, out);
    const json genai = read(folder / "genai_config.json");
    if (genai.is_object() && genai.contains("model")) add_ends(genai["model"], tokenizer, out);
  }
  return out;
}

}  // namespace amp
