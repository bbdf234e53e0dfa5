// Setting: a member of RunSpec with its name, range, help and rules. Command lines, configuration files and forms use
// these descriptions. Each setting is a row in run/settings/rows/ (docs/adding_a_setting.md).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "run/settings/values.h"
#include "run/spec/default.h"
#include "run/spec/job.h"

namespace amp {

struct RunSpec;

enum class SettingType { boolean, integer, number, text, list, choice };

// In the order of help texts.
enum class SettingGroup {
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
std::string_view title(SettingGroup g);

// The name of a setting in another trainer. With when_true it is a switch, and when_true and when_false are the values
// that it sets: no_cuda sets device to cpu. A fraction must be below 1, because warmup_ratio 1 must not become
// warmup_steps 1.
struct OtherName {
  OtherName(const char* spelling) : name(spelling) {}
  OtherName(const char* spelling, std::string_view yes, std::string_view no)
      : name(spelling), when_true(yes), when_false(no) {}
  static OtherName fraction_of_one(const char* spelling) {
    OtherName n(spelling);
    n.fraction = true;
    return n;
  }
  std::string_view name, when_true, when_false;
  bool fraction = false;
  bool is_switch() const { return !when_true.empty(); }
};

// Checks one text value and returns its canonical form, or nullopt if it is not allowed.
using Normalize = std::optional<std::string> (*)(std::string_view text);

// The allowed values of a setting and their description.
struct Description {
  std::string_view name;
  SettingValue initial;           // the default; its type is the type of all values
  std::string_view help;          // one to three sentences: what it does, its unit, and its default if that is empty
  std::string_view metavar = {};  // placeholder of the value: FILE; none for booleans and choices
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false, infinity_allowed = false;
  std::vector<std::string_view> choices = {};
  std::vector<std::pair<std::string_view, std::string_view>> synonyms = {};  // value in other trainers -> our value
  std::vector<OtherName> other_names = {};
  Normalize normalize = nullptr;
  std::string_view expected = {};  // description of what normalize accepts
  std::string_view alone = {};     // the value if only the name is given; empty: a value is required
  bool split_commas = false;       // a list element "a,b" becomes two elements
  bool several_files = false;      // a text that may name several files ("a.csv,b.csv"); repeated values are joined
  bool json = false;               // the value or an element may be a JSON object, which is kept as text
  bool recorded = true;            // included in the record of a run
  bool common = false;             // included in the short help

  SettingType type() const;
  std::string allowed() const;  // "at least 0 and below 1", "one of sgd, adam, adamw"; "" if every value is allowed
};

// Parses a value. Usage errors (E_USAGE) name the setting, the value and what is allowed. Only lists and settings with
// several_files accept several texts.
SettingValue parse_value(const Description& d, std::span<const std::string> texts);
void check_value(const Description& d, const SettingValue& value);  // throws the errors of parse_value()
bool is_empty(const SettingValue& v);                               // an empty text or list

// Condition on the value of a setting in a resumed run, compared with the run that it continues.
enum class Resume {
  same,          // the same value
  same_content,  // a file with the same contents, at any path
  free           // may change
};

// A pointer to a setting's value in a RunSpec. The pointer's type is the type of the value.
using ValuePlace =
    std::variant<bool*, int64_t*, double*, std::string*, std::vector<std::string>*, Default<bool>*, Default<int64_t>*,
                 Default<double>*, Default<std::string>*, Default<std::vector<std::string>>*>;
using Member = std::function<ValuePlace(RunSpec&)>;

// A row of the settings table. The chained setters keep the rows readable.
struct Setting : Description {
  Setting(std::string_view name, Member member, std::string_view help);

  Member member;
  SettingGroup group = SettingGroup::run;
  JobSet jobs = 0, required = 0;  // jobs that read it; jobs that require it
  Resume resume = Resume::same;
  std::vector<std::pair<Job, SettingValue>> other_defaults;

  const SettingValue& default_for(Job job) const;

  Setting& read_by(JobSet set) { return put(jobs, set); }
  Setting& needed_by(JobSet set) { return put(required, set); }
  Setting& otherwise(Job job, const SettingValue& value);
  Setting& same_content() { return put(resume, Resume::same_content); }
  Setting& may_change() { return put(resume, Resume::free); }
  Setting& unrecorded() { return put(recorded, false); }
  Setting& in_short_help() { return put(common, true); }

  Setting& shown_as(std::string_view text) { return put(metavar, text); }
  Setting& at_least(double v) { return put(low, v); }
  Setting& above(double v) { return put(low_open, true).put(low, v); }
  Setting& at_most(double v) { return put(high, v); }
  Setting& below(double v) { return put(high_open, true).put(high, v); }
  Setting& or_infinity() { return put(infinity_allowed, true); }
  Setting& one_of(std::vector<std::string_view> values);
  Setting& same(std::vector<std::pair<std::string_view, std::string_view>> pairs);
  Setting& also(std::vector<OtherName> names);
  Setting& checked(Normalize f, std::string_view words) { return put(normalize, f).put(expected, words); }
  Setting& alone_is(std::string_view value) { return put(alone, value); }
  Setting& by_commas() { return put(split_commas, true); }
  Setting& names_files() { return put(several_files, true); }
  Setting& as_json() { return put(json, true); }

 private:
  template <class T>
  Setting& put(T& place, T value) {
    place = std::move(value);
    return *this;
  }
};

// Returns the value of the setting in `spec`.
SettingValue value_of(const RunSpec& spec, const Setting& setting);
bool is_set(const RunSpec& spec, const Setting& setting);  // false for a Default without an assigned value
// asked=false changes only the default of a Default. A value of another type is an internal error.
void set_value(RunSpec& spec, const Setting& setting, const SettingValue& value, bool asked = true);

}  // namespace amp
