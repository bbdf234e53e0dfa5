// The settings of a RunSpec by name: read, written, shown, and what each means for a run that is resumed.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run/settings/setting.h"
#include "run/settings/values.h"
#include "run/spec/spec.h"

namespace amp {

std::span<const Setting> settings();
const Setting* find_setting(std::string_view name);   // null when there is none
const Setting& setting_named(std::string_view name);  // a bug when there is none

SettingValue value_of(const RunSpec& spec, const Setting& setting);
bool asked_for(const RunSpec& spec, const Setting& setting);  // false for a Default that nobody assigned to
// asked: false leaves a Default a default. A value of another type is a bug.
void set_value(RunSpec& spec, const Setting& setting, const SettingValue& value, bool asked = true);

// For a Default: what a model's metadata or a run's record says, as text, unless it was asked for; true when it took.
// What does not read as the setting's type does not take.
bool suggest_texts(RunSpec& spec, const Setting& setting, const std::vector<std::string>& texts);

// Refuses a value that its setting does not take, of those that the job reads.
void check_settings(const RunSpec& spec, Job job);

// By name what Resume asks for, as text; files by size and checksum, the model by its SHA-256.
std::map<std::string, std::string> resume_record(const RunSpec& spec);
// Adds the settings that the record of an earlier version does not know: its run was made as their defaults have it.
void add_new_settings(std::map<std::string, std::string>& record);

// The files that a run reads, by setting: {"train", "train.csv"}.
std::vector<std::pair<std::string, std::string>> input_files(const RunSpec& spec);

// Whether a setting of its own (adam_beta1, momentum, ...) is one that the optimizer reads.
bool optimizer_reads(const std::string& optimizer, std::string_view setting);

// A JSON object {name: value} of what training reads and is not empty.
std::string settings_json(const RunSpec& spec);

}  // namespace amp
