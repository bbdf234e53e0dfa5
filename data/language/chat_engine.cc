// Renders chat templates with llama.cpp's Jinja engine, which reads the templates that Hugging Face publishes. {%
// generation %} blocks are replaced by marks that are found again in the output, so that answers can be located.
#include "data/language/chat_engine.h"

#include <jinja/lexer.h>
#include <jinja/parser.h>
#include <jinja/runtime.h>

#include <new>

#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace {

using nlohmann::ordered_json;

constexpr int64_t kMaxRange = 100000;  // limit of range(), as in Jinja's sandbox
// Marks that {% generation %} and {% endgeneration %} write. They are removed from the output.
constexpr std::string_view kBegin =
                               "\x01"
                               "generation\x02",
                           kEnd =
                               "\x01"
                               "endgeneration\x02";

// Adds an expression that writes the mark after each tag of a generation block. Jinja drops a newline after a tag, but
// not after an expression. So an empty block is added after the expression, except where the tag itself strips the text
// after it.
std::string with_marks(const std::string& source, bool& any) {
  std::string out;
  size_t at = 0;
  for (size_t open = source.find("{%"); open != std::string::npos; open = source.find("{%", open + 2)) {
    const size_t word = source.find_first_not_of(" \t\r\n-+", open + 2);
    if (word == std::string::npos) break;
    const size_t end = source.find_first_of(" \t\r\n-+%", word);
    const std::string tag = source.substr(word, end - word);
    if (tag != "generation" && tag != "endgeneration") continue;
    const size_t close = source.find("%}", open);
    if (close == std::string::npos) break;
    any = true;
    const std::string mark = cat("{{ \"", tag == "generation" ? kBegin : kEnd, "\" ");
    out += source.substr(at, close + 2 - at);
    out += source[close - 1] == '-' ? mark + "-}}" : mark + "}}{% if false %}{% endif %}";
    at = close + 2;
    open = close;
  }
  return out + source.substr(at);
}

// Removes the marks. The texts between them are the answers.
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

// The engine's messages quote the source around the error. Returns only the reason and its place in the template.
std::string reason_in(const std::string& what) {
  constexpr std::string_view kReason = "\nError: ", kRaised = "Jinja Exception: ";
  const size_t at = what.rfind(kReason);
  if (at == std::string::npos) return what;
  std::string reason = what.substr(at + kReason.size());
  if (reason.starts_with(kRaised)) reason.erase(0, kRaised.size());
  if (reason == "std::bad_alloc") reason = "it needs too much memory";
  const size_t line = what.find("line "), end = what.find(" in source", line);
  return end < at ? cat(reason, " (", what.substr(line, end - line), ")") : reason;
}

jinja::value bounded_range(const jinja::func_args& args) {
  const auto number = [&](size_t i, int64_t preset) { return args.count() > i ? args.get_pos(i)->as_int() : preset; };
  args.ensure_count(1, 3);
  const int64_t step = number(2, 1), start = args.count() > 1 ? number(0, 0) : 0, stop = number(args.count() > 1, 0);
  if (step == 0) throw jinja::raised_exception("range() step argument must not be zero");
  auto out = jinja::mk_val<jinja::value_array>();
  int64_t count = 0;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (++count > kMaxRange) throw jinja::raised_exception(cat("range() of more than ", kMaxRange));
    out->push_back(jinja::mk_val<jinja::value_int>(i));
    if (__builtin_add_overflow(i, step, &i)) break;  // after an overflow, the next element would be beyond any stop
  }
  return out;
}

}  // namespace

void refuse_template(const std::string& name, const std::string& why) {
  fail(Exit::data, "E_CHAT_TEMPLATE", cat("the chat template of '", printable(name), "': ", printable(why)),
       cat("correct '", printable(name), "', or give another one with `chat_template` FILE"));
}

struct ChatEngine::Program {
  jinja::program parsed;
};

ChatEngine::ChatEngine(const std::string& source, std::string name, std::map<std::string, std::string> specials)
    : name_(std::move(name)), specials_(std::move(specials)) {
  source_ = with_marks(source, marks_answers_);
  try {
    jinja::lexer lexer;
    program_ = std::make_unique<Program>(jinja::parse_from_tokens(lexer.tokenize(source_)));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    refuse_template(name_, reason_in(e.what()));
  }
}

ChatEngine::~ChatEngine() = default;

std::string ChatEngine::special(const std::string& token) const {
  const auto it = specials_.find(token);
  return it == specials_.end() ? std::string() : it->second;
}

RenderedChat ChatEngine::render(const ordered_json& messages, bool add_generation_prompt,
                                const ordered_json& tools) const {
  ordered_json variables = {{"messages", messages}, {"tools", tools}, {"documents", nullptr}};
  variables["add_generation_prompt"] = add_generation_prompt;
  for (const auto& [token, text] : specials_) variables[token] = text;
  try {
    jinja::context context(source_);
    jinja::global_from_json(context, variables, false);
    context.set_val("range", jinja::mk_val<jinja::value_func>("range", bounded_range));
    const jinja::value_array parts = jinja::runtime(context).execute(program_->parsed);
    return without_marks(jinja::render_string_parts(jinja::runtime::gather_string_parts(parts)));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    refuse_template(name_, reason_in(e.what()));
  }
}

}  // namespace amp
