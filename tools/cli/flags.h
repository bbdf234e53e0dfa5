// tools/cli: the option layer of the command line. This file: what a flag is, and the table of all of them.
//
// A flag is a setting of the library, described there (run/settings/setting.h), or one of the command line's own (own_flags.cc).
// Parser, configuration file, environment, help and the dumped configuration all read the one table.
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
  help,
  version,
};

struct VerbInfo {
  Verb verb;
  std::optional<Job> job;  // of the library
  std::string_view name;
  std::string_view usage;  // what follows the verb: "MODEL.onnx [flags]"
  std::string_view what;
  int max_positionals;  // words without a flag, the verb not counted
};
std::span<const VerbInfo> verbs();
const VerbInfo& info(Verb v);
const VerbInfo* find_verb(std::string_view name);  // nullptr when there is none

using VerbSet = uint32_t;
template <class... V>
constexpr VerbSet in(V... v) {
  return ((1u << static_cast<unsigned>(v)) | ...);
}
constexpr bool has(VerbSet set, Verb v) { return (set & in(v)) != 0; }

struct Flag : Description {
  const Setting* setting = nullptr;  // null: the command line's own
  SettingGroup group = SettingGroup::run;
  VerbSet verbs = 0, required = 0;  // that take it; that refuse to run without it

  const SettingValue& default_for(Verb v) const;
};

std::span<const Flag> flags();  // the table, groups together

// Flags that are no settings. Each stands in help behind a setting, or behind the own flag before it.
struct OwnFlag {
  std::string_view behind;
  VerbSet verbs;
  Description description;
  VerbSet required = 0;
};
std::vector<OwnFlag> own_flags();

// What a user wrote, resolved. alias is set when it was another name; negated for --no_<boolean flag>.
struct Found {
  const Flag* flag = nullptr;
  const OtherName* alias = nullptr;
  bool negated = false;
  bool takes_switch() const { return flag->type() == SettingType::boolean || (alias && alias->is_switch()); }
};
std::string snake_case(std::string_view name);               // dashes become underscores
std::optional<Found> find_flag(std::string_view name);       // any spelling, snake_case
const Flag& flag_named(std::string_view name);               // canonical name; a bug when absent
std::string nearest_flag(std::string_view name, Verb verb);  // canonical or other spelling close to name; "" if none
std::string hint_for_foreign_flag(std::string_view name);  // other trainers' flags that have no counterpart here; or ""

}  // namespace amp::cli
