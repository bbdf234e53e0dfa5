// The tables of verbs and flags of the command line.
//
// A flag is a setting of the library (run/settings/setting.h) or belongs to the command line only (own_flags.cc).
// Parser, configuration file, environment, help and the recorded configuration all read the table of flags.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run/settings/setting.h"

namespace amp::cli {

enum class Verb {
  train,
  sweep,
  eval,
  predict,
  check,
  plan,
  grad,
  export_model,
  tokenize,
  create,
  convert,
  generate,
  bench,
  report,
  explain,
  help,
  version,
};

struct VerbInfo {
  Verb verb;
  std::optional<Job> job;  // the job of the library that the verb runs; nullopt: none
  std::string_view name;
  std::string_view usage;  // text after the verb in the help: "MODEL.onnx [flags]"
  std::string_view what;
  int max_positionals;  // largest number of positional arguments, without the verb
};
std::span<const VerbInfo> verbs();
const VerbInfo& info(Verb v);
const VerbInfo* find_verb(std::string_view name);  // returns nullptr for an unknown verb

using VerbSet = uint32_t;
template <class... V>
constexpr VerbSet in(V... v) {
  return ((1u << static_cast<unsigned>(v)) | ...);
}
constexpr bool has(VerbSet set, Verb v) { return (set & in(v)) != 0; }

struct Flag : Description {
  const Setting* setting = nullptr;  // null: the flag belongs to the command line only
  SettingGroup group = SettingGroup::run;
  VerbSet verbs = 0, required = 0;  // the verbs that accept the flag; the verbs that require it

  const SettingValue& default_for(Verb v) const;
};

std::span<const Flag> flags();  // returns the table, ordered by groups

// A flag that is not a setting. `behind` names the setting after which the help lists this flag.
struct OwnFlag {
  std::string_view behind;
  VerbSet verbs;
  Description description;
  VerbSet required = 0;
};
std::vector<OwnFlag> own_flags();

// The flag that a spelling means. alias: the spelling, if it is not the flag's own name. negated: the spelling is
// --no_<name> of a boolean flag.
struct Found {
  const Flag* flag = nullptr;
  const OtherName* alias = nullptr;
  bool negated = false;
  bool takes_switch() const { return flag->type() == SettingType::boolean || (alias && alias->is_switch()); }
};
std::string snake_case(std::string_view name);               // changes dashes to underscores
std::optional<Found> find_flag(std::string_view name);       // finds a flag by any of its spellings
const Flag& flag_named(std::string_view name);               // name: the flag's own name; an unknown name is a bug
std::string nearest_flag(std::string_view name, Verb verb);  // returns the nearest spelling; "" if none is similar
// Returns a hint for a flag of another trainer that has no counterpart here; "" for other names.
std::string hint_for_foreign_flag(std::string_view name);

}  // namespace amp::cli
