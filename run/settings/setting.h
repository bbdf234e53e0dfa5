// A setting: a member of RunSpec and all that is known of it. Whoever lets people set things (a command line, a
// configuration file, a form) reads these; they are written in run/settings/, a row for each
// (docs/adding_a_setting.md).
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

// In the order in which people are shown them.
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

// A name that other trainers have for it. With when_true it is a switch that stands for a value: no_cuda is device cpu.
// A fraction's value is below 1: warmup_ratio 1 must not become warmup_steps 1.
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

// Checks one text value and returns its canonical form, or nothing when it is not allowed.
using Normalise = std::optional<std::string> (*)(std::string_view text);

// What a value may be, and the words for it.
struct Description {
  std::string_view name;
  SettingValue initial;           // the default, which has the type of all its values
  std::string_view help;          // a sentence
  std::string_view metavar = {};  // what stands for a value: FILE; none for a truth value or a choice
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false, infinity_allowed = false;
  std::vector<std::string_view> choices = {};
  std::vector<std::pair<std::string_view, std::string_view>> synonyms = {};  // value spelled elsewhere -> ours
  std::vector<OtherName> other_names = {};
  Normalise normalise = nullptr;
  std::string_view expected = {};  // what normalise accepts, in words
  std::string_view alone = {};     // the value that its name alone stands for; empty: it needs one
  bool split_commas = false;       // a list element "a,b" is two
  bool several_files = false;      // a text that may name several files, "a.csv,b.csv": given twice, it names both
  bool json = false;               // it, or an element, may be a JSON object, handed on as text
  bool recorded = true;            // part of what is recorded of a run

  SettingType type() const;
  std::string allowed() const;  // "at least 0 and below 1", "one of sgd, adam, adamw"; "" when anything goes
};

// Text -> value. Usage errors (E_USAGE) name setting, value and what is allowed. All but a list take one text.
SettingValue parse_value(const Description& d, std::span<const std::string> texts);
void check_value(const Description& d, const SettingValue& value);  // the same errors
bool is_empty(const SettingValue& v);                               // a text or list that is not set

// What a resumed run must have in common with the one that it goes on from.
enum class Resume {
  same,          // the value
  same_content,  // a file: its contents, wherever it lies
  free           // nothing
};

// A pointer to a setting's value in a RunSpec. The pointer's type is the type of the value.
using ValuePlace =
    std::variant<bool*, int64_t*, double*, std::string*, std::vector<std::string>*, Default<bool>*, Default<int64_t>*,
                 Default<double>*, Default<std::string>*, Default<std::vector<std::string>>*>;
using Member = std::function<ValuePlace(RunSpec&)>;

// Plain data; the chained setters make the rows readable.
struct Setting : Description {
  Setting(std::string_view name, Member member, std::string_view help);

  Member member;
  SettingGroup group = SettingGroup::run;
  JobSet jobs = 0, required = 0;  // that read it; that cannot do without
  Resume resume = Resume::same;
  std::vector<std::pair<Job, SettingValue>> other_defaults;

  const SettingValue& default_for(Job job) const;

  Setting& read_by(JobSet set) { return put(jobs, set); }
  Setting& needed_by(JobSet set) { return put(required, set); }
  Setting& otherwise(Job job, const SettingValue& value);
  Setting& same_content() { return put(resume, Resume::same_content); }
  Setting& may_change() { return put(resume, Resume::free); }
  Setting& unrecorded() { return put(recorded, false); }

  Setting& shown_as(std::string_view text) { return put(metavar, text); }
  Setting& at_least(double v) { return put(low, v); }
  Setting& above(double v) { return put(low_open, true).put(low, v); }
  Setting& at_most(double v) { return put(high, v); }
  Setting& below(double v) { return put(high_open, true).put(high, v); }
  Setting& or_infinity() { return put(infinity_allowed, true); }
  Setting& one_of(std::vector<std::string_view> values);
  Setting& same(std::vector<std::pair<std::string_view, std::string_view>> pairs);
  Setting& also(std::vector<OtherName> names);
  Setting& checked(Normalise f, std::string_view words) { return put(normalise, f).put(expected, words); }
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

}  // namespace amp
