// What a run writes into its folder, and the record (".run-files.json") by which a later run knows it again: nothing
// that the record does not vouch for is ever removed or replaced.
//
// Logs, plan and checkpoints are vouched for by name: a run does not begin where files of those names already are.
// model.onnx appears at the end and may have been changed or put there by its user: it is known by its checksum.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"

namespace amp {

struct RunRecord {
  std::map<std::string, FileSum> files;  // model.onnx, model.onnx.data: as the run wrote them
};

std::optional<RunRecord> read_record(const std::string& folder);  // none when there is none, or it is damaged
void write_record(const std::string& folder, const RunRecord& record);

inline constexpr std::array kRunFiles = {"metrics.jsonl",      "eval.jsonl",    "precision_plan.json", "run.json",
                                         "export.safetensors", "model.onnx",    "model.onnx.data",     "checkpoints",
                                         "report.html",        "lr_range.json", "test_metrics.json",   "samples.json"};
inline constexpr std::array kModelFiles = {"model.onnx", "model.onnx.data"};
std::vector<std::string> run_file_names(const std::string& folder);  // kRunFiles, and the event files that are there
inline constexpr const char* kRecordFile = ".run-files.json";
inline constexpr const char* kMoveFile = ".move.json";  // a move that has begun (run/folder/output_folder.h)

// A run's own paths in a folder, relative to it: those of kRunFiles and the event files that are there and its record
// vouches for, with "checkpoints/checkpoint-N" for each of its checkpoints. None without a record.
std::vector<std::string> own_paths(const std::string& folder);
bool is_own_name(const std::string& path);  // of that form, so that a list from a file cannot name anything else

// Paths among kRunFiles and event files that no record vouches for, each with the reason, for people.
std::vector<std::string> foreign_paths(const std::string& folder);

bool holds_results(const std::string& folder);  // steps, checkpoints or a model: what starting again would lose

void remove_run(const std::string& folder);  // own_paths() and the record
// A folder that runs make for themselves: all of kRunFiles and what dead writers left, then the folder if nothing else
// is in it. Not while a move out of it has begun.
void remove_aside(const std::string& folder);

}  // namespace amp
