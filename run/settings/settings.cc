// The table of all settings and access to a RunSpec by name. Members may be plain values or Default<T>; std::visit over
// ValuePlace handles both. Resume records are compared by trainer/loop/checkpoint (require_same).
#include "run/settings/settings.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "backend/update.h"
#include "backend/update_rules.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"
#include "run/settings/rows/rows.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

std::vector<Setting> make_settings() {
  std::vector<Setting> all;
  const auto add = [&](SettingGroup group, std::vector<Setting> rows) {
    for (Setting& s : rows) {
      s.group = group;
      all.push_back(std::move(s));
    }
  };
  add(SettingGroup::model, model_settings());
  add(SettingGroup::data, data_settings());
  add(SettingGroup::data, image_settings());
  add(SettingGroup::data, feature_settings());
  add(SettingGroup::precision, precision_settings());
  add(SettingGroup::scaling, scaling_settings());
  add(SettingGroup::optimizer, optimizer_settings());
  add(SettingGroup::schedule, schedule_settings());
  add(SettingGroup::evaluation, evaluation_settings());
  add(SettingGroup::checkpoints, checkpoint_settings());
  add(SettingGroup::exporting, export_settings());
  add(SettingGroup::run, run_settings());
  return all;
}

std::optional<SettingValue> read_texts(const SettingValue& like, const std::vector<std::string>& texts) {
  if (std::holds_alternative<std::vector<std::string>>(like)) return texts;
  if (texts.size() != 1) return std::nullopt;
  if (std::holds_alternative<std::string>(like)) return texts[0];
  const auto as_value = [](const auto& v) { return v ? std::optional<SettingValue>(*v) : std::nullopt; };
  if (std::holds_alternative<bool>(like)) return as_value(parse_bool(texts[0]));
  if (std::holds_alternative<int64_t>(like)) return as_value(parse_integer(texts[0]));
  return as_value(parse_number(texts[0]));
}

nlohmann::json to_json(const SettingValue& v) {
  if (const auto* d = std::get_if<double>(&v)) {
    if (std::isinf(*d)) return number_text(*d);
    if (*d == std::floor(*d) && std::abs(*d) < 1e15) return static_cast<int64_t>(*d);
    return *d;
  }
  return std::visit([](const auto& x) { return nlohmann::json(x); }, v);
}

}  // namespace

std::span<const Setting> settings() {
  static const std::vector<Setting> all = make_settings();
  return all;
}

const Setting* find_setting(std::string_view name) {
  const std::span<const Setting> all = settings();
  const auto it = std::find_if(all.begin(), all.end(), [&](const Setting& s) { return s.name == name; });
  return it == all.end() ? nullptr : &*it;
}

const Setting& setting_named(std::string_view name) {
  const Setting* const s = find_setting(name);
  if (!s) bug(cat("no setting is called '", name, "'"));
  return *s;
}

bool suggest_texts(RunSpec& spec, const Setting& setting, const std::vector<std::string>& texts) {
  if (is_set(spec, setting)) return false;
  const std::optional<SettingValue> v = read_texts(value_of(spec, setting), texts);
  if (!v) return false;
  set_value(spec, setting, *v, false);
  return true;
}

void check_settings(const RunSpec& spec, Job job) {
  for (const Setting& s : settings()) {
    if (has(s.jobs, job)) check_value(s, value_of(spec, s));
  }
}

// Adds the settings that a resumed run must share to the record, unless it contains them already.
static void record_settings(const RunSpec& spec, std::map<std::string, std::string>& record) {
  for (const Setting& s : settings()) {
    if (has(s.jobs, Job::train) && s.resume == Resume::same)
      record.emplace(std::string(s.name), value_text(value_of(spec, s)));
  }
}

std::map<std::string, std::string> same_settings(const RunSpec& spec) {
  std::map<std::string, std::string> out;
  record_settings(spec, out);
  return out;
}

void add_new_settings(std::map<std::string, std::string>& record) { record_settings(RunSpec(), record); }

bool optimizer_reads(const std::string& optimizer, std::string_view setting) {
  const std::vector<RuleKey> keys = rule_keys(optimizer);
  return std::any_of(keys.begin(), keys.end(), [&](const RuleKey& k) { return k.flag == setting; });
}

std::string settings_json(const RunSpec& spec) {
  nlohmann::json j = nlohmann::json::object();
  for (const Setting& s : settings()) {
    const SettingValue v = value_of(spec, s);
    if (has(s.jobs, Job::train) && s.recorded && !is_empty(v)) j[std::string(s.name)] = to_json(v);
  }
  // A path may hold bytes that are not UTF-8.
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace amp
