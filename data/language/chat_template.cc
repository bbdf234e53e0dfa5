// Renders chat templates with llama.cpp's Jinja engine, which reads the templates that Hugging Face publishes. {%
// generation %} blocks are replaced by marks that are found again in the output, so that answers can be located.
// Templates come from files, so their size, nesting and ranges are limited.
#include "data/language/chat_template.h"

#include <jinja/lexer.h>
#include <jinja/parser.h>
#include <jinja/runtime.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "data/utf8.h"

namespace amp {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr size_t kMaxTemplate = 256 << 10;  // bytes; published templates have up to 20 KiB
constexpr int kMaxNesting = 200;
constexpr int64_t kMaxRange = 100000;  // limit of range(), as in Jinja's sandbox
// Marks that {% generation %} and {% endgeneration %} write. They are removed from the output.
constexpr std::string_view kBegin =
                               "\x01"
                               "generation\x02",
                           kEnd =
                               "\x01"
                               "endgeneration\x02";

[[noreturn]] void refuse_template(const std::string& name, const std::string& why) {
  fail(Exit::data, "E_CHAT_TEMPLATE", cat("the chat template of '", printable(name), "': ", printable(why)),
       "give another one with `chat_template` FILE");
}

// The engine recurses once per bracket.
void check_nesting(const std::string& source, const std::string& name) {
  int depth = 0;
  for (const char c : source) {
    depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    if (depth > kMaxNesting) refuse_template(name, cat("brackets are nested deeper than ", kMaxNesting));
  }
}

// Adds an expression that writes the mark after each tag of a generation block. Jinja drops a newline after a tag, but
// not after an expression. So an empty block follows unless the tag strips what follows.
std::string with_marks(const std::string& source, bool& any) {
  std::string out;
  size_t at = 0;
  for (size_t open = source.find("{%"); open != std::string::npos; open = source.find("{%", open + 2)) {
    const size_t close = source.find("%}", open);
    if (close == std::string::npos) break;
    const size_t word = source.find_first_not_of(" \t\r\n-+", open + 2);
    const size_t end = source.find_first_of(" \t\r\n-+%", word);
    const std::string tag = source.substr(word, end - word);
    if (tag != "generation" && tag != "endgeneration") continue;
    any = true;
    const std::string mark = cat("{{ \"", tag == "generation" ? kBegin : kEnd, "\" ");
    out += source.substr(at, close + 2 - at);
    out += source[close - 1] == '-' ? mark + "-}}" : mark + "}}{% if false %}{% endif %}";
    at = close + 2;
  }
  return out + source.substr(at);
}

// Removes the marks; the text between them are answers.
RenderedChat without_marks(const std::string& text) {
  RenderedChat out;
  size_t at = 0, begun = std::string::npos;
  while (at < text.size()) {
    const size_t mark = text.find('\x01', at);
    out.text += text.substr(at, mark - at);
    if (mark == std::string::npos) break;
    const std::string_view rest = std::string_view(text).substr(mark);
    if (rest.starts_with(kBegin)) {
      begun = out.text.size();
      at = mark + kBegin.size();
    } else if (rest.starts_with(kEnd)) {
      if (begun < out.text.size()) out.answers.emplace_back(begun, out.text.size());
      at = mark + kEnd.size();
    } else {
      out.text += '\x01';
      at = mark + 1;
    }
  }
  return out;
}

jinja::value bounded_range(const jinja::func_args& args) {
  const auto number = [&](size_t i, int64_t preset) { return args.count() > i ? args.get_pos(i)->as_int() : preset; };
  args.ensure_count(1, 3);
  const int64_t step = number(2, 1), start = args.count() > 1 ? number(0, 0) : 0, stop = number(args.count() > 1, 0);
  if (step == 0) throw jinja::raised_exception("range() step argument must not be zero");
  auto out = jinja::mk_val<jinja::value_array>();
  int64_t count = 0;
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (++count > kMaxRange) throw jinja::raised_exception(cat("range() of more than ", kMaxRange));
    out->push_back(jinja::mk_val<jinja::value_int>(i));
  }
  return out;
}

}  // namespace

// A program may run on one thread at a time, so there are as many parsed programs as threads that render.
struct ChatTemplate::Programs {
  std::mutex mutex;
  std::vector<std::unique_ptr<jinja::program>> idle;
};

namespace {
std::unique_ptr<jinja::program> parse(const std::string& source) {
  jinja::lexer lexer;
  return std::make_unique<jinja::program>(jinja::parse_from_tokens(lexer.tokenize(source)));
}
}  // namespace

ChatTemplate::ChatTemplate(std::string source, std::string name, std::map<std::string, std::string> specials)
    : name_(std::move(name)), specials_(std::move(specials)), programs_(std::make_unique<Programs>()) {
  if (source.size() > kMaxTemplate)
    refuse_template(name_, cat("it has ", source.size(), " bytes, at most ", kMaxTemplate));
  check_nesting(source, name_);
  source_ = with_marks(source, marks_answers_);
  try {
    programs_->idle.push_back(parse(source_));
  } catch (const std::exception& e) {
    refuse_template(name_, e.what());
  }
}

ChatTemplate::~ChatTemplate() = default;

std::string ChatTemplate::special(const std::string& token) const {
  const auto it = specials_.find(token);
  return it == specials_.end() ? std::string() : it->second;
}

RenderedChat ChatTemplate::render(const ordered_json& messages, bool add_generation_prompt,
                                  const ordered_json& tools) const {
  ordered_json variables = {{"messages", messages}, {"tools", tools}, {"documents", nullptr}};
  variables["add_generation_prompt"] = add_generation_prompt;
  for (const auto& [token, text] : specials_) variables[token] = text;
  std::unique_ptr<jinja::program> program;
  {
    const std::lock_guard lock(programs_->mutex);
    if (!programs_->idle.empty()) {
      program = std::move(programs_->idle.back());
      programs_->idle.pop_back();
    }
  }
  try {
    if (!program) program = parse(source_);
    jinja::context context(source_);
    jinja::global_from_json(context, variables, false);
    context.set_val("range", jinja::mk_val<jinja::value_func>("range", bounded_range));
    const jinja::value_array parts = jinja::runtime(context).execute(*program);
    const std::string text = jinja::render_string_parts(jinja::runtime::gather_string_parts(parts));
    const std::lock_guard lock(programs_->mutex);
    programs_->idle.push_back(std::move(program));
    return without_marks(text);
  } catch (const std::exception& e) {
    refuse_template(name_, e.what());
  }
}

namespace {

ordered_json read_json(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return nullptr;
  return ordered_json::parse(read_file(path).text(), nullptr, false);
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
    const std::string source = json ? template_in(ordered_json::parse(bytes.text(), nullptr, false))
                                    : std::string(without_byte_order_mark(bytes.text()));
    if (!source.empty()) return std::make_shared<ChatTemplate>(source, path, special_tokens(folder, tokenizer));
    if (!file.empty()) refuse_template(file, "there is none in it");
  }
  return nullptr;
}

}  // namespace amp
