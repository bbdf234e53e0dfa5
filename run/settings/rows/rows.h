// The settings table: each setting is one row (an object of Setting), and each topic has one file of rows
// (docs/adding_a_setting.md). This header declares the functions that return the rows, and helpers to write them.
//
// A setting has one name; also() lists the names that Hugging Face, PaddlePaddle (LARK), timm, Apex and GradScaler use.
// The default is the member's initial value (run/spec/); it equals Hugging Face's unless the help gives a reason.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "run/settings/setting.h"

namespace amp {

struct DataSpec;
struct DeviceSpec;
struct DistributionSpec;
struct EvaluationSpec;
struct ImageSpec;
struct LanguageSpec;
struct ModelSpec;
struct ObjectiveSpec;
struct OptimizationSpec;
struct OutputSpec;
struct PrecisionSpec;
struct ScheduleSpec;
struct TableSpec;
struct TextSpec;

inline constexpr JobSet kTrain = jobs(Job::train);
inline constexpr JobSet kExport = jobs(Job::train, Job::write);
inline constexpr JobSet kData = jobs(Job::train, Job::evaluate, Job::predict);
inline constexpr JobSet kFeed = kData | jobs(Job::plan);        // jobs that read data; plan reads it to calibrate
inline constexpr JobSet kTableJobs = kFeed | jobs(Job::build);  // build reads a table to derive the sizes of a model
inline constexpr JobSet kText = kFeed | jobs(Job::tokenize);
inline constexpr JobSet kTokenizer = kText | jobs(Job::generate);
// jobs that build the training graph
inline constexpr JobSet kGraph = jobs(Job::train, Job::check, Job::plan, Job::gradients);
inline constexpr JobSet kRun = kGraph | kData | jobs(Job::generate);  // jobs that build any graph
inline constexpr JobSet kPlanned = kRun | jobs(Job::write);           // jobs that use a precision plan

// Returns the part of a RunSpec that has this type; each type occurs once. The definition is in part_of.cc, so that a
// file of rows includes only the parts that it names.
template <class Part>
Part& part_of(RunSpec& spec);
template <>
ModelSpec& part_of(RunSpec& spec);
template <>
ObjectiveSpec& part_of(RunSpec& spec);
template <>
DataSpec& part_of(RunSpec& spec);
template <>
TextSpec& part_of(RunSpec& spec);
template <>
LanguageSpec& part_of(RunSpec& spec);
template <>
ImageSpec& part_of(RunSpec& spec);
template <>
TableSpec& part_of(RunSpec& spec);
template <>
PrecisionSpec& part_of(RunSpec& spec);
template <>
OptimizationSpec& part_of(RunSpec& spec);
template <>
ScheduleSpec& part_of(RunSpec& spec);
template <>
EvaluationSpec& part_of(RunSpec& spec);
template <>
OutputSpec& part_of(RunSpec& spec);
template <>
DistributionSpec& part_of(RunSpec& spec);
template <>
DeviceSpec& part_of(RunSpec& spec);

// A row: setting("lr", &OptimizationSpec::lr, "Peak learning rate.").
template <class Part, class T>
Setting setting(std::string_view name, T Part::*field, std::string_view help) {
  return {name, [field](RunSpec& spec) -> ValuePlace { return &(part_of<Part>(spec).*field); }, help};
}

// Return the rows of each group, in the order of help texts.
std::vector<Setting> model_settings();
std::vector<Setting> data_settings();
std::vector<Setting> image_settings();
std::vector<Setting> feature_settings();
std::vector<Setting> precision_settings();
std::vector<Setting> scaling_settings();
std::vector<Setting> optimizer_settings();
std::vector<Setting> schedule_settings();
std::vector<Setting> evaluation_settings();
std::vector<Setting> checkpoint_settings();
std::vector<Setting> export_settings();
std::vector<Setting> run_settings();

// Choices that are defined by other tables.
std::vector<std::string_view> optimizer_choices();
std::vector<std::string_view> schedule_choices();
std::vector<std::string_view> metric_choices();

// Return the canonical forms of values that have a syntax; nullopt for invalid text.
std::optional<std::string> normal_loss_scale(std::string_view text);  // "dynamic" (0 too), or a number above 0
std::optional<std::string> normal_bytes(std::string_view text);       // "2GiB", "500 MB", "1048576": bytes
std::optional<std::string> normal_delimiter(std::string_view text);   // "auto", or one byte; "tab", "\t", "comma" ...
std::optional<std::string> normal_steps(std::string_view text);
std::optional<std::string> normal_gate(std::string_view text);
std::optional<std::string> normal_decay(std::string_view text);    // [0, 1)
std::optional<std::string> normal_weights(std::string_view text);  // last, best, ema, ema:DECAY
std::optional<std::string> normal_gpus(std::string_view text);     // numbers, each once: 0,2
std::optional<std::string> normal_lora_export(std::string_view text);
std::optional<std::string> normal_port(std::string_view text);        // off, or 0 to 65535
std::optional<std::string> normal_max_length(std::string_view text);  // 0 (no limit), or 2 and more
std::optional<std::string> normal_image_size(std::string_view text);  // HEIGHTxWIDTH
std::optional<std::string> normal_transforms(
    std::string_view text);  // "auto", or a pipeline in the form of Pipeline::text()

}  // namespace amp
