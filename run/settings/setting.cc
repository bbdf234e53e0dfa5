// Descriptions of settings: parsing, checking and printing of values. Every value, from the command line or from JSON,
// is checked by parse_value() or check_value(), so that the errors are the same everywhere.
#include "run/settings/setting.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/fs.h"
#include "base/number_text.h"
#include "base/setting_name.h"
#include "base/text.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

template <class T>
struct IsDefault : std::false_type {};
template <class T>
struct IsDefault<Default<T>> : std::true_type {};

// Setting::member returns a mutable pointer; callers of this function only read through it.
ValuePlace place_of(const RunSpec& spec, const Setting& setting) { return setting.member(const_cast<RunSpec&>(spec)); }

[[noreturn]] void refuse(const Description& d, std::string_view text, std::string_view problem, std::string hint = {}) {
  const std::string allowed = d.allowed();
  fail(Exit::usage, "E_USAGE",
       cat(setting_name(d.name), " ", printable(text), ": ", problem, allowed.empty() ? "" : "; allowed: ", allowed),
       std::move(hint));
}

void require_range(const Description& d, std::string_view text, double v) {
  const bool low = d.low_open ? v > d.low : v >= d.low;
  const bool high = d.high_open ? v < d.high : v <= d.high;
  if (!low || !high || (std::isinf(v) && !d.infinity_allowed)) refuse(d, text, "out of range");
}

std::string_view translated(const Description& d, std::string_view text) {
  for (const auto& [theirs, ours] : d.synonyms) {
    if (lower_case(text) == lower_case(theirs)) return ours;
  }
  return text;
}

std::string parse_text(const Description& d, std::string_view given) {
  const std::string_view text = translated(d, given);
  if (text.empty()) refuse(d, "''", "the value is empty", "an unset shell variable?");
  if (!d.normalize) return std::string(text);
  const auto normal = d.normalize(text);
  if (!normal) refuse(d, given, "not understood");
  return *normal;
}

std::string parse_choice(const Description& d, std::string_view given) {
  const std::string text = lower_case(translated(d, given));
  for (const std::string_view choice : d.choices) {
    if (lower_case(choice) == text) return std::string(choice);
  }
  std::vector<std::string> names(d.choices.begin(), d.choices.end());
  for (const auto& [theirs, ours] : d.synonyms) names.emplace_back(theirs);
  const std::string near = nearest(text, names);
  refuse(d, given, "no such value", near.empty() ? "" : cat("did you mean '", near, "'?"));
}

// Joins "a.csv" and "b.csv" to "a.csv,b.csv", the form that data/text_file.h reads.
std::string join_files(const Description& d, std::span<const std::string> texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts) {
    out.push_back(parse_text(d, text));
    if (out.back().find(',') != std::string::npos && path_exists(out.back()))
      refuse(d, text, "a comma in a file's name separates names where several are given", "rename the file");
  }
  return join(out, ",");
}

std::vector<std::string> parse_list(const Description& d, std::span<const std::string> texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts) {
    for (const std::string& part : d.split_commas ? split(text, ',') : std::vector{text}) {
      out.push_back(parse_text(d, part));
    }
  }
  return out;
}

}  // namespace

SettingType Description::type() const {
  static constexpr std::array types{SettingType::boolean, SettingType::integer, SettingType::number, SettingType::text,
                                    SettingType::list};
  return choices.empty() ? types[initial.index()] : SettingType::choice;
}

std::string Description::allowed() const {
  if (normalize) return std::string(expected);
  if (!choices.empty()) {
    const std::vector<std::string> names(choices.begin(), choices.end());
    return "one of " + join(names, ", ");
  }
  if (type() == SettingType::boolean) return "true or false";
  std::vector<std::string> parts;
  const bool has_low = low > -std::numeric_limits<double>::infinity();
  const bool has_high = high < std::numeric_limits<double>::infinity();
  if (has_low) parts.push_back((low_open ? "above " : "at least ") + number_text(low));
  if (has_high) parts.push_back((high_open ? "below " : "at most ") + number_text(high));
  return join(parts, " and ");
}

SettingValue parse_value(const Description& d, std::span<const std::string> texts) {
  const SettingType type = d.type();
  if (type == SettingType::list) return parse_list(d, texts);
  if (d.several_files && texts.size() > 1) return join_files(d, texts);
  if (texts.size() != 1) {
    fail(Exit::usage, "E_USAGE", cat(setting_name(d.name), ": ", texts.size(), " values given, it takes one"));
  }
  const std::string& given = texts[0];
  const std::string_view text = translated(d, given);
  switch (type) {
    case SettingType::boolean: {
      const auto v = parse_bool(text);
      if (!v) refuse(d, given, "not a truth value");
      return *v;
    }
    case SettingType::integer: {
      const auto v = parse_integer(text);
      if (!v) refuse(d, given, "not a whole number");
      require_range(d, given, static_cast<double>(*v));
      if (d.normalize && !d.normalize(text)) refuse(d, given, "out of range");
      return *v;
    }
    case SettingType::number: {
      const auto v = parse_number(text);
      if (!v) refuse(d, given, "not a number");
      require_range(d, given, *v);
      return *v;
    }
    case SettingType::choice:
      return parse_choice(d, given);
    case SettingType::text:
      return parse_text(d, given);
    case SettingType::list:
      break;
  }
  bug("a type of setting without parser");
}

void check_value(const Description& d, const SettingValue& value) {
  if (is_empty(value) && is_empty(d.initial)) return;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& text : *list) parse_text(d, text);
  } else {
    parse_value(d, std::array{value_text(value)});
  }
}

bool is_empty(const SettingValue& v) {
  if (const auto* s = std::get_if<std::string>(&v)) return s->empty();
  if (const auto* l = std::get_if<std::vector<std::string>>(&v)) return l->empty();
  return false;
}

SettingValue value_of(const RunSpec& spec, const Setting& setting) {
  return std::visit(
      [&](const auto* place) -> SettingValue {
        if constexpr (IsDefault<std::remove_cvref_t<decltype(*place)>>::value) {
          return **place;
        } else {
          return *place;
        }
      },
      place_of(spec, setting));
}

bool is_set(const RunSpec& spec, const Setting& setting) {
  return std::visit(
      [&](const auto* place) {
        if constexpr (IsDefault<std::remove_cvref_t<decltype(*place)>>::value) {
          return place->asked();
        } else {
          return true;
        }
      },
      place_of(spec, setting));
}

void set_value(RunSpec& spec, const Setting& setting, const SettingValue& value, bool asked) {
  std::visit(
      [&](auto* place) {
        using M = std::remove_cvref_t<decltype(*place)>;
        if constexpr (IsDefault<M>::value) {
          using T = std::remove_cvref_t<decltype(**place)>;
          const T* v = std::get_if<T>(&value);
          if (!v) bug(cat("setting '", setting.name, "' given a value of another type"));
          if (asked) {
            *place = *v;
          } else {
            place->suggest(*v);
          }
        } else {
          const M* v = std::get_if<M>(&value);
          if (!v) bug(cat("setting '", setting.name, "' given a value of another type"));
          *place = *v;
        }
      },
      setting.member(spec));
}

Setting::Setting(std::string_view setting, Member at, std::string_view words) : member(at) {
  static const RunSpec defaults;
  name = setting;
  help = words;
  initial = value_of(defaults, *this);
  if (type() == SettingType::integer) metavar = "N";
  if (type() == SettingType::number) metavar = "X";
}

Setting& Setting::otherwise(Job job, const SettingValue& value) {
  other_defaults.emplace_back(job, value);
  return *this;
}
Setting& Setting::one_of(std::vector<std::string_view> values) { return put(choices, std::move(values)); }
Setting& Setting::same(std::vector<std::pair<std::string_view, std::string_view>> pairs) {
  return put(synonyms, std::move(pairs));
}
Setting& Setting::also(std::vector<OtherName> names) { return put(other_names, std::move(names)); }

const SettingValue& Setting::default_for(Job job) const {
  for (const auto& [other, value] : other_defaults) {
    if (other == job) return value;
  }
  return initial;
}

std::string_view title(SettingGroup g) {
  switch (g) {
    case SettingGroup::model:
      return "Model, head and loss";
    case SettingGroup::data:
      return "Data";
    case SettingGroup::precision:
      return "Precision";
    case SettingGroup::scaling:
      return "Loss scaling";
    case SettingGroup::optimizer:
      return "Optimizer";
    case SettingGroup::schedule:
      return "Schedule and batches";
    case SettingGroup::evaluation:
      return "Evaluation and gates";
    case SettingGroup::checkpoints:
      return "Output and checkpoints";
    case SettingGroup::exporting:
      return "Export";
    case SettingGroup::run:
      return "Running";
    case SettingGroup::count:
      break;
  }
  bug("group without title");
}

}  // namespace amp
