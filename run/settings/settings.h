// All settings: found by name, checked, printed, and compared for resumed runs.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run/settings/setting.h"
#include "run/settings/values.h"
#include "run/spec/job.h"

namespace amp {

struct RunSpec;

std::span<const Setting> settings();
const Setting* find_setting(std::string_view name);   // nullptr if there is none
const Setting& setting_named(std::string_view name);  // an internal error if there is none

// Sets a Default to a value from a model's metadata or a run's record, unless the user assigned one. Returns true if it
// was set. Text that does not parse as the setting's type is ignored.
bool suggest_texts(RunSpec& spec, const Setting& setting, const std::vector<std::string>& texts);

// Checks the values of all settings that the job reads; fails for one that is not allowed.
void check_settings(const RunSpec& spec, Job job);

// Returns the values that a resumed run must share (Resume::same), by setting.
std::map<std::string, std::string> same_settings(const RunSpec& spec);
// Adds settings that the record of an earlier version lacks, with their defaults: that run used them.
void add_new_settings(std::map<std::string, std::string>& record);

// True if the optimizer reads this optimizer setting (adam_beta1, momentum, ...).
bool optimizer_reads(const std::string& optimizer, std::string_view setting);

// Returns {name: value} as JSON, for non-empty settings that training reads and records.
std::string settings_json(const RunSpec& spec);

}  // namespace amp
