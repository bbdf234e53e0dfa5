// The words in which the flag tables (flags_*.cc) are written: sets of verbs, and a maker for each type of flag.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "tools/cli/flags.h"

namespace amp::cli {

inline constexpr VerbSet kTrain = only(Verb::train);
inline constexpr VerbSet kExport = in(Verb::train, Verb::export_model);
inline constexpr VerbSet kData = in(Verb::train, Verb::eval, Verb::predict);
inline constexpr VerbSet kFeed = kData | only(Verb::plan);  // read data; plan does to calibrate
inline constexpr VerbSet kText = kFeed | only(Verb::tokenize);
inline constexpr VerbSet kGraph = in(Verb::train, Verb::check, Verb::plan, Verb::grad);  // build the training graph
inline constexpr VerbSet kRun = kGraph | kData;                                          // build any graph
inline constexpr VerbSet kPlanned = kRun | only(Verb::export_model);                     // under a precision plan
inline constexpr VerbSet kAll = kRun | kExport | kText;

inline Flag make(std::string_view name, Type type, std::string_view metavar, std::string_view fallback,
                 std::string_view help) {
  Flag f;
  f.name = name;
  f.type = type;
  f.metavar = metavar;
  f.fallback = fallback;
  f.help_line = help;
  return f;
}
using Text = std::string_view;
inline Flag toggle(Text name, Text fallback, Text help) { return make(name, Type::boolean, "", fallback, help); }
inline Flag whole(Text name, Text fallback, Text help) { return make(name, Type::integer, "N", fallback, help); }
inline Flag real(Text name, Text fallback, Text help) { return make(name, Type::number, "X", fallback, help); }
inline Flag text(Text name, Text metavar, Text fallback, Text help) {
  return make(name, Type::text, metavar, fallback, help);
}
inline Flag list(Text name, Text metavar, Text help) { return make(name, Type::list, metavar, "", help); }
inline Flag choice(Text name, std::vector<Text> choices, Text fallback, Text help) {
  Flag f = make(name, Type::choice, "", fallback, help);
  f.choices = std::move(choices);
  return f;
}

// Each group's flags; in the order in which help lists them.
std::vector<Flag> model_flags();
std::vector<Flag> data_flags();
std::vector<Flag> precision_flags();
std::vector<Flag> scaling_flags();
std::vector<Flag> optimizer_flags();
std::vector<Flag> schedule_flags();
std::vector<Flag> evaluation_flags();
std::vector<Flag> checkpoint_flags();
std::vector<Flag> export_flags();
std::vector<Flag> run_flags();

}  // namespace amp::cli
