// The files of a run and their record (".run-files.json"), by which a later run identifies them. Files that the record
// does not cover are not removed or replaced.
//
// Logs, plan and checkpoints are identified by name, since a run does not begin if files of those names exist.
// model.onnx is written at the end and may have been changed or added by the user, so it is identified by its checksum.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"

namespace amp {

struct RunRecord {
  std::map<std::string, FileSum> files;  // checksums of kModelFiles as the run wrote them
};

// Returns the record; nullopt if it is missing or damaged. Earlier versions wrote no record: if the folder has a
// checkpoint or a run.json of theirs, an empty record is returned. Logs and checkpoints then count as files of the run,
// but model.onnx does not.
std::optional<RunRecord> read_record(const std::string& folder);
bool has_record(const std::string& folder);  // whether the file ".run-files.json" exists
void write_record(const std::string& folder, const RunRecord& record);

inline constexpr const char* kExportRecord = "export.safetensors";  // run/prepare/export_record.h
inline constexpr const char* kSamplesFile = "samples.json";         // run/evaluate/samples.h
inline constexpr const char* kAnswersFile = "answers.json";         // run/train/sample_prompts.h
inline constexpr const char* kLrRangeFile = "lr_range.json";        // run/prepare/lr_range.h
inline constexpr const char* kEventFilePrefix = "events.out.tfevents.";
inline constexpr std::array kRunFiles = {"metrics.jsonl",
                                         "eval.jsonl",
                                         "precision_plan.json",
                                         "run.json",
                                         kExportRecord,
                                         "model.onnx",
                                         "model.onnx.data",
                                         "checkpoints",
                                         "report.html",
                                         kLrRangeFile,
                                         "test_metrics.json",
                                         kSamplesFile,
                                         kAnswersFile,
                                         "model.onnx_adapter",
                                         "slots.json",
                                         "adapter_config.json",
                                         "adapter_model.safetensors",
                                         "raw_rows.onnx",
                                         "raw_rows.onnx.data"};
inline constexpr std::array kModelFiles = {"model.onnx",          "model.onnx.data",          "raw_rows.onnx",
                                           "raw_rows.onnx.data",  "model.onnx_adapter",       "slots.json",
                                           "adapter_config.json", "adapter_model.safetensors"};
std::vector<std::string> run_file_names(const std::string& folder);  // kRunFiles and the existing event files
inline constexpr const char* kRecordFile = ".run-files.json";
// Files of adapters beside an exported model: slots.json and PEFT's in the folder of "model.onnx", as a run has them.
// Other names of the model keep adapters apart: "x.slots.json" and the folder "x" for "x.onnx".
std::string slots_file(const std::string& model);
std::string peft_folder_of(const std::string& model);
inline constexpr const char* kMoveFile = ".move.json";  // a recorded move (run/folder/output_folder.h)

// Returns the run's paths in a folder, relative to it: existing files of kRunFiles and event files that the record
// covers, and "checkpoints/checkpoint-N" for each checkpoint. Empty without a record.
std::vector<std::string> own_paths(const std::string& folder);
// Returns true for kRecordFile and for paths that own_paths() can return. Used to reject other paths in a list that
// was read from a file.
bool is_own_name(const std::string& path);

// Returns existing paths of kRunFiles and event files that no record covers, each with the reason for the user.
std::vector<std::string> foreign_paths(const std::string& folder);

// Returns true if the path is the output folder of a run, finished or not.
bool is_run_folder(const std::string& path);

// Returns true if there are steps, checkpoints or a model that a new run would lose.
bool holds_results(const std::string& folder);

void remove_own(const std::string& path);    // a file or a checkpoint of a run
void remove_run(const std::string& folder);  // removes own_paths() and the record
// Removes temporary files of a run's names that processes left which have ended (names contain a pid). Requires the
// DirLock. Temporary checkpoints are left: see recover_checkpoints().
void remove_stale(const std::string& folder);
// Clears a staging folder: all of kRunFiles and leftovers of killed writers, then the folder itself if it is empty.
// Must not be called while a move out of it has begun.
void remove_aside(const std::string& folder);

}  // namespace amp
