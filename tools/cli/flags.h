// tools/cli: the option layer of the command line. This file: what a flag is, and the table of all of them.
//
// A flag is written once, in flags_*.cc: name, type, default, allowed values, group, verbs, help line, other
// spellings. Parser, configuration file, environment, help and the dumped configuration all read that table.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace amp::cli {

enum class Verb {
  train,
  eval,
  predict,
  check,
  plan,
  grad,
  export_model,
  tokenize,
  help,
  version,
};

struct VerbInfo {
  Verb verb;
  std::string_view name;
  std::string_view usage;  // what follows the verb: "MODEL.onnx [flags]"
  std::string_view what;
  int max_positionals;  // words without a flag, the verb not counted
};
std::span<const VerbInfo> verbs();
const VerbInfo& info(Verb v);
const VerbInfo* find_verb(std::string_view name);  // nullptr when there is none

using VerbSet = uint32_t;
constexpr VerbSet only(Verb v) { return 1u << static_cast<unsigned>(v); }
template <class... V>
constexpr VerbSet in(V... v) {
  return (only(v) | ...);
}
constexpr bool has(VerbSet set, Verb v) { return (set & only(v)) != 0; }

// In the order in which help lists them.
enum class Group {
  model,
  data,
  precision,
  scaling,
  optimizer,
  schedule,
  evaluation,
  checkpoints,
  exporting,
  run,
  count
};
std::string_view title(Group g);

enum class Type { boolean, integer, number, text, list, choice };

// Another spelling. With when_true it is a switch that stands for a value: --no_cuda is --device cpu.
// A fraction's value is below 1: --warmup_ratio 1 must not become --warmup_steps 1.
struct Alias {
  Alias(const char* spelling) : name(spelling) {}
  Alias(const char* spelling, std::string_view yes, std::string_view no)
      : name(spelling), when_true(yes), when_false(no) {}
  static Alias fraction_of_one(const char* spelling) {
    Alias a(spelling);
    a.fraction = true;
    return a;
  }
  std::string_view name, when_true, when_false;
  bool fraction = false;
  bool is_switch() const { return !when_true.empty(); }
};

// Checks one text value and returns its canonical form, or nothing when it is not allowed.
using Normalise = std::optional<std::string> (*)(std::string_view text);

// Plain data; the chained setters only make the table readable.
struct Flag {
  std::string_view name;
  Type type = Type::text;
  std::string_view metavar;
  std::string_view fallback;  // default, as text; "" for text and lists means: not set
  std::string_view help_line;
  Group group = Group::run;
  VerbSet verbs = 0;
  VerbSet required = 0;  // verbs that refuse to run without it
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false, infinity_allowed = false;
  std::vector<std::string_view> choices;
  std::vector<std::pair<std::string_view, std::string_view>> synonyms;  // value spelled elsewhere -> ours
  std::vector<std::pair<Verb, std::string_view>> other_defaults;
  std::vector<Alias> aliases;
  Normalise normalise = nullptr;
  std::string_view expected;  // what normalise accepts, in words
  bool split_commas = false;  // a list element "a,b" is two
  bool json = false;          // an element may be JSON, handed on as text
  bool recorded = true;       // part of the effective configuration

  Flag& at_least(double v) {
    low = v;
    return *this;
  }
  Flag& above(double v) {
    low = v;
    low_open = true;
    return *this;
  }
  Flag& at_most(double v) {
    high = v;
    return *this;
  }
  Flag& below(double v) {
    high = v;
    high_open = true;
    return *this;
  }
  Flag& or_infinity() {
    infinity_allowed = true;
    return *this;
  }
  Flag& also(std::vector<Alias> other) {
    aliases = std::move(other);
    return *this;
  }
  Flag& same(std::vector<std::pair<std::string_view, std::string_view>> pairs) {
    synonyms = std::move(pairs);
    return *this;
  }
  Flag& on(VerbSet set) {
    verbs = set;
    return *this;
  }
  Flag& needed(VerbSet set) {
    required = set;
    return *this;
  }
  Flag& otherwise(Verb v, std::string_view text) {
    other_defaults.emplace_back(v, text);
    return *this;
  }
  Flag& checked(Normalise f, std::string_view words) {
    normalise = f;
    expected = words;
    return *this;
  }
  Flag& by_commas() {
    split_commas = true;
    return *this;
  }
  Flag& as_json() {
    json = true;
    return *this;
  }
  Flag& unrecorded() {
    recorded = false;
    return *this;
  }

  std::string_view default_for(Verb v) const;
  std::string allowed() const;  // "0 or more", "above 0 and below 1", "one of sgd, adam, adamw"; "" when anything goes
};

std::span<const Flag> flags();        // the table, groups together
std::vector<Flag> make_flag_table();  // flag_table.cc

// What a user wrote, resolved. alias is set when it was a switch-like spelling; negated for --no_<boolean flag>.
struct Found {
  const Flag* flag = nullptr;
  const Alias* alias = nullptr;
  bool negated = false;
  bool takes_switch() const { return flag->type == Type::boolean || (alias && alias->is_switch()); }
};
std::string snake_case(std::string_view name);               // dashes become underscores
std::optional<Found> find_flag(std::string_view name);       // any spelling, snake_case
const Flag& flag_named(std::string_view name);               // canonical name; a bug when absent
std::string nearest_flag(std::string_view name, Verb verb);  // canonical or other spelling close to name; "" if none
std::string hint_for_foreign_flag(std::string_view name);  // other trainers' flags that have no counterpart here; or ""

}  // namespace amp::cli
