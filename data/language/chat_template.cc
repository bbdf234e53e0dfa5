// Chat templates come from files of other authors, and the engine that renders them limits neither time nor memory. So
// the engine runs in helper processes with limits, one per thread that renders. One request holds a whole conversation,
// for which the template is rendered several times (conversation.cc), so few messages are exchanged.
#include "data/language/chat_template.h"

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "base/error.h"
#include "base/file.h"
#include "base/json_nesting.h"
#include "base/limited_process.h"
#include "base/text.h"
#include "base/utf8.h"

namespace amp {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr size_t kMaxTemplate = 256 << 10;  // bytes; published templates have up to 20 KiB

// The function of a helper process. A request is a list in CBOR: the name of the function, render() or conversation(),
// and its arguments. An empty request only parses the template. A reply is CBOR too: text and answers, or the parts of
// an Error.
class TemplateServer {
 public:
  TemplateServer(std::string source, std::string name, std::map<std::string, std::string> specials)
      : source_(std::move(source)), name_(std::move(name)), specials_(std::move(specials)) {}

  std::string operator()(std::string_view request) {
    std::string out;
    ordered_json reply;
    try {
      if (!engine_) engine_ = std::make_shared<ChatEngine>(source_, name_, specials_);
      if (request.empty()) {
        reply = ordered_json::array({"", ordered_json::array(), engine_->marks_answers()});
      } else {
        const RenderedChat chat = render(ordered_json::from_cbor(request));
        reply = ordered_json::array({chat.text, chat.answers});
      }
    } catch (const Error& e) {
      reply = {{"exit", e.exit()}, {"id", e.id()}, {"fact", e.fact()}, {"hint", e.hint()}};
    }
    ordered_json::to_cbor(reply, nlohmann::detail::output_adapter<char>(out));
    return out;
  }

 private:
  RenderedChat render(const ordered_json& r) const {
    if (r.at(0) == "render") return engine_->render(r.at(1), r.at(3), r.at(2));
    return render_conversation(*engine_, r.at(1), r.at(2), r.at(3).get<LossOn>(), r.at(4));
  }
  std::string source_, name_;
  std::map<std::string, std::string> specials_;
  std::shared_ptr<const ChatEngine> engine_;
};

std::string reason_of(const LimitedProcess::Reply& reply) {
  switch (reply.outcome) {
    case LimitedProcess::Outcome::time:
      return "it takes too long: loops or recursion without end?";
    case LimitedProcess::Outcome::memory:
      return "it needs too much memory";
    case LimitedProcess::Outcome::reply:
      return "its text is too long";
    case LimitedProcess::Outcome::crashed:
      return "it is nested or calls itself too deeply";
    default:
      return reply.text;
  }
}

}  // namespace

// A template that has exceeded its limits is not rendered again, because each further row would take as long.
struct ChatTemplate::Processes {
  LimitedProcess::Function server;  // calls a TemplateServer
  std::string name;
  std::mutex mutex;
  std::vector<std::unique_ptr<LimitedProcess>> idle;
  std::string refused;

  std::unique_ptr<LimitedProcess> take() {
    {
      const std::lock_guard lock(mutex);
      if (!refused.empty()) refuse_template(name, refused);
      if (!idle.empty()) {
        std::unique_ptr<LimitedProcess> process = std::move(idle.back());
        idle.pop_back();
        return process;
      }
    }
    return std::make_unique<LimitedProcess>(server);
  }

  ordered_json ask(std::string_view request, int64_t renderings) {
    std::unique_ptr<LimitedProcess> process = take();
    const LimitedProcess::Reply reply = process->ask(request, renderings);
    {
      const std::lock_guard lock(mutex);
      if (reply.outcome != LimitedProcess::Outcome::answered) {
        refused = reason_of(reply);
        refuse_template(name, refused);
      }
      idle.push_back(std::move(process));
    }
    ordered_json out = ordered_json::from_cbor(reply.text);
    if (out.is_object()) fail(out["exit"].get<Exit>(), out["id"], out["fact"], out["hint"]);
    return out;
  }

  RenderedChat render(const ordered_json& request, int64_t renderings) {
    std::string bytes;
    ordered_json::to_cbor(request, nlohmann::detail::output_adapter<char>(bytes));
    ordered_json reply = ask(bytes, renderings);
    return {std::move(reply[0].get_ref<std::string&>()), reply[1].get<decltype(RenderedChat::answers)>()};
  }
};

ChatTemplate::ChatTemplate(std::string source, std::string name, std::map<std::string, std::string> specials)
    : name_(name) {
  if (source.size() > kMaxTemplate)
    refuse_template(name_, cat("it has ", source.size(), " bytes, at most ", kMaxTemplate));
  processes_.reset(new Processes{TemplateServer(std::move(source), name, std::move(specials)), name, {}, {}, {}});
  marks_answers_ = processes_->ask({}, 1)[2];
}

ChatTemplate::~ChatTemplate() = default;

RenderedChat ChatTemplate::render(const ordered_json& messages, bool add_generation_prompt,
                                  const ordered_json& tools) const {
  return processes_->render(ordered_json::array({"render", messages, tools, add_generation_prompt}), 1);
}

RenderedChat ChatTemplate::conversation(const ordered_json& messages, const ordered_json& tools, LossOn on,
                                        size_t prompt) const {
  return processes_->render(ordered_json::array({"conversation", messages, tools, on, prompt}),
                            4 * static_cast<int64_t>(messages.size()));
}

namespace {

ordered_json read_json(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return nullptr;
  return parse_json<ordered_json>(read_file(path).text());
}

std::map<std::string, std::string> special_tokens(const std::string& folder, const Tokenizer& tokenizer) {
  const SpecialIds& ids = tokenizer.special();
  const std::pair<const char*, int32_t> known[] = {
      {"bos_token", ids.bos}, {"eos_token", ids.eos}, {"unk_token", ids.unk},  {"sep_token", ids.sep},
      {"pad_token", ids.pad}, {"cls_token", ids.cls}, {"mask_token", ids.mask}};
  std::map<std::string, std::string> out;
  const ordered_json config = read_json((fs::path(folder) / "tokenizer_config.json").string());
  for (const auto& [name, id] : known) {
    if (!config.is_object()) {
      if (id >= 0) out[name] = tokenizer.token(id);
      continue;
    }
    if (!config.contains(name)) continue;
    const ordered_json& v = config[name];
    if (v.is_string()) out[name] = v.get<std::string>();
    if (v.is_object() && v.contains("content") && v["content"].is_string()) out[name] = v["content"].get<std::string>();
  }
  return out;
}

// Returns the template in a configuration: a text, or a list of named templates, of which "default" is used.
std::string template_in(const ordered_json& config) {
  if (!config.is_object() || !config.contains("chat_template")) return {};
  const ordered_json& t = config["chat_template"];
  if (t.is_string()) return t.get<std::string>();
  for (const ordered_json& named : t.is_array() ? t : ordered_json::array()) {
    if (named.is_object() && named.value("name", "") == "default") return named.value("template", "");
  }
  return {};
}

}  // namespace

std::shared_ptr<const ChatTemplate> open_chat_template(const std::string& file, const std::string& folder,
                                                       const Tokenizer& tokenizer) {
  std::error_code error;
  for (const std::string& path : file.empty()
                                     ? std::vector<std::string>{(fs::path(folder) / "chat_template.jinja").string(),
                                                                (fs::path(folder) / "tokenizer_config.json").string()}
                                     : std::vector<std::string>{file}) {
    if (file.empty() && !fs::is_regular_file(path, error)) continue;
    const FileBytes bytes = read_file(path);
    const bool json = path.ends_with(".json");
    const std::string source =
        json ? template_in(parse_json<ordered_json>(bytes.text())) : std::string(without_byte_order_mark(bytes.text()));
    if (!source.empty()) return std::make_shared<ChatTemplate>(source, path, special_tokens(folder, tokenizer));
    if (!file.empty()) refuse_template(file, "there is none in it");
  }
  return nullptr;
}

}  // namespace amp
