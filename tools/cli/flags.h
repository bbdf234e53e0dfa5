// The option layer of the command line. This file has the table of all flags.
//
// A flag is a setting of the library (run/settings/setting.h) or belongs to the command line only (own_flags.cc).
// Parser, configuration file, environment, help and the recorded configuration read this one table.
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
  std::optional<Job> job;  // the library's job; nullopt: none
  std::string_view name;
  std::string_view usage;  // text after the verb: "MODEL.onnx [flags]"
  std::string_view what;
  int max_positionals;  // positional arguments, without the verb
};
std::span<const VerbInfo> verbs();
const VerbInfo& info(Verb v);
const VerbInfo* find_verb(std::string_view name);  // nullptr: unknown

using VerbSet = uint32_t;
template <class... V>
constexpr VerbSet in(V... v) {
  return ((1u << static_cast<unsigned>(v)) | ...);
}
constexpr bool has(VerbSet set, Verb v) { return (set & in(v)) != 0; }

struct Flag : Description {
  const Setting* setting = nullptr;  // null: belongs to the command line only
  SettingGroup group = SettingGroup::run;
  VerbSet verbs = 0, required = 0;  // verbs that accept it; verbs that require it

  const SettingValue& default_for(Verb v) const;
};

std::span<const Flag> flags();  // the table, ordered by groups

// Flags that are not settings. Help lists each one after the setting that `behind` names.
struct OwnFlag {
  std::string_view behind;
  VerbSet verbs;
  Description description;
  VerbSet required = 0;
};
std::vector<OwnFlag> own_flags();

// The flag that a spelling means. alias: the other name, if the spelling is one. negated: the spelling is --no_<boolean
// flag>.
struct Found {
  const Flag* flag = nullptr;
  const OtherName* alias = nullptr;
  bool negated = false;
  bool takes_switch() const { return flag->type() == SettingType::boolean || (alias && alias->is_switch()); }
};
std::string snake_case(std::string_view name);               // dashes to underscores
std::optional<Found> find_flag(std::string_view name);       // any spelling
const Flag& flag_named(std::string_view name);               // canonical name; unknown names are a bug
std::string nearest_flag(std::string_view name, Verb verb);  // similar spelling; "" if none
// Returns a hint for a flag of another trainer that has no counterpart here; "" for other names.
std::string hint_for_foreign_flag(std::string_view name);

}  // namespace amp::cli
