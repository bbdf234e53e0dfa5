// Implements Options, which stores a value, the value's source and its origin for each flag. offer() replaces a value
// only if the new source does not have lower precedence.
#include "tools/cli/options.h"

#include <array>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"

namespace amp::cli {

static constexpr std::array<std::string_view, 7> kSourceNames{"default", "derived",     "preset",      "plan",
                                                              "config",  "environment", "command line"};

std::string_view name_of(Source s) { return kSourceNames[static_cast<size_t>(s)]; }

std::optional<Source> source_from_name(std::string_view name) {
  for (size_t i = 0; i < kSourceNames.size(); ++i) {
    if (kSourceNames[i] == name) return static_cast<Source>(i);
  }
  return std::nullopt;
}

Options::Options(Verb v) : verb(v) {
  for (const Flag& f : flags()) entries_.push_back({f.default_for(v), Source::fallback, {}});
}

const Options::Entry& Options::entry(std::string_view name) const {
  return entries_[static_cast<size_t>(&flag_named(name) - flags().data())];
}

template <class T>
const T& Options::typed(std::string_view name) const {
  const T* v = std::get_if<T>(&entry(name).value);
  if (!v) bug(cat("flag '", name, "' read as another type than its own"));
  return *v;
}

const std::string& Options::str(std::string_view name) const { return typed<std::string>(name); }
double Options::num(std::string_view name) const { return typed<double>(name); }
int64_t Options::integer(std::string_view name) const { return typed<int64_t>(name); }
bool Options::flag(std::string_view name) const { return typed<bool>(name); }
const std::vector<std::string>& Options::list(std::string_view name) const {
  return typed<std::vector<std::string>>(name);
}
const SettingValue& Options::value(std::string_view name) const { return entry(name).value; }
Source Options::source(std::string_view name) const { return entry(name).source; }
const std::string& Options::origin(std::string_view name) const { return entry(name).origin; }
bool Options::was_set(std::string_view name) const { return source(name) > Source::derived; }

bool Options::has(std::string_view name) const {
  const SettingValue& v = value(name);
  if (const auto* s = std::get_if<std::string>(&v)) return !s->empty();
  if (const auto* l = std::get_if<std::vector<std::string>>(&v)) return !l->empty();
  return true;
}

bool Options::offer(std::string_view name, std::vector<std::string> texts, Source source, std::string origin) {
  const Flag& f = flag_named(name);
  SettingValue v;
  try {
    v = parse_value(f, texts);  // checked even if its source does not win: a bad value is always an error
  } catch (Error& e) {
    if (!origin.empty()) e.at("from " + origin);
    throw;
  }
  Entry& s = entries_[static_cast<size_t>(&f - flags().data())];
  if (source < s.source) return false;
  s = {std::move(v), source, std::move(origin)};
  return true;
}

std::string plain_text(const Found& found, std::string_view text) {
  const OtherName* alias = found.alias;
  if (alias && alias->fraction) {
    const auto v = parse_number(text);
    if (v && *v >= 1) {
      fail(Exit::usage, "E_USAGE",
           cat("--", alias->name, " ", printable(text), ": out of range; allowed: at least 0 and below 1"),
           cat("for a number of steps use --", found.flag->name));
    }
  }
  const bool is_switch = alias && alias->is_switch();
  if (!is_switch && !found.negated) return std::string(text);
  const auto truth = parse_bool(text);
  if (!truth) {
    fail(Exit::usage, "E_USAGE",
         cat("--", found.negated ? "no_" : "", alias ? alias->name : found.flag->name, " ", printable(text),
             ": not a truth value; allowed: true or false"));
  }
  if (is_switch) return std::string(*truth ? alias->when_true : alias->when_false);
  return *truth ? "false" : "true";
}

}  // namespace amp::cli
