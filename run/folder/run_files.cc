// Decides which files of a folder belong to a run and may be removed or replaced. Model files are identified by size
// and CRC-32C in .run-files.json, all others by name. A file without proof of its origin is reported as foreign.
#include "run/folder/run_files.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/json_nesting.h"
#include "base/number_text.h"
#include "base/text.h"
#include "trainer/loop/checkpoint.h"

namespace amp {

namespace {
using nlohmann::json;
constexpr const char* kFormat = "onnx-amp-finetune run";
constexpr const char* kCheckpoints = "checkpoints";

bool is_link(const std::string& path) {
  struct stat s;
  return ::lstat(path.c_str(), &s) == 0 && S_ISLNK(s.st_mode);
}

bool has_usual_name(const std::filesystem::path& model) { return model.stem() == "model"; }

bool is_model_file(const std::string& name) {
  return std::find(kModelFiles.begin(), kModelFiles.end(), name) != kModelFiles.end();
}

bool is_event_file(const std::string& name) {
  return name.starts_with(kEventFilePrefix) && all_digits(name.substr(std::string_view(kEventFilePrefix).size()));
}

// True if the folder contains only files of a checkpoint; they may be damaged.
bool is_run_checkpoint(const std::string& path) {
  if (is_link(path) || !is_dir(path)) return false;
  const std::vector<std::string> names = list_dir(path);
  return std::all_of(names.begin(), names.end(),
                     [](const std::string& n) { return n == "manifest.json" || n == "state.safetensors"; });
}

std::vector<std::string> checkpoint_names(const std::string& folder) {
  std::vector<std::string> out;
  for (const int64_t step : list_checkpoints(folder + "/" + kCheckpoints)) {
    const std::string name = checkpoint_path(kCheckpoints, step);
    if (is_run_checkpoint(folder + "/" + name)) out.push_back(name);
  }
  return out;
}

// Recognizes a run without a record by a checkpoint (another program may have removed the record), or by the run.json
// of earlier versions. This does not show that model.onnx belongs to the run.
std::optional<RunRecord> earlier_record(const std::string& folder) {
  const std::string checkpoints = folder + "/" + kCheckpoints;
  for (const std::string& name : is_dir(checkpoints) ? checkpoint_names(folder) : std::vector<std::string>()) {
    if (is_checkpoint(folder + "/" + name)) return RunRecord{};
  }
  const std::string path = folder + "/run.json";
  if (!path_exists(path) || is_dir(path)) return std::nullopt;
  const json j = parse_json(read_file(path, Exit::storage).text());
  const bool ours = j.is_object() && j.contains("model_sha256") && j.contains("finished") && j.contains("version") &&
                    j.contains("config");
  return ours ? std::optional(RunRecord{}) : std::nullopt;
}

// Returns the reason why an existing file does not belong to the record; empty if it does.
std::string doubt(const std::string& folder, const std::string& name, const std::optional<RunRecord>& record) {
  if (!record) return "no run began in this folder";
  if (!is_model_file(name)) return "";
  const auto known = record->files.find(name);
  if (known == record->files.end()) return "the run in this folder wrote none";
  struct stat s;
  const std::string path = folder + "/" + name;
  if (::lstat(path.c_str(), &s) != 0 || !S_ISREG(s.st_mode)) return "it is no file that a run wrote";
  if (s.st_size != known->second.size || sum_of_file(path).crc32c != known->second.crc32c)
    return "it is another than the run wrote";
  return "";
}
}  // namespace

std::string slots_file(const std::string& model) {
  const std::filesystem::path path(model);
  const std::string name = has_usual_name(path) ? "slots.json" : path.stem().string() + ".slots.json";
  return (path.parent_path() / name).string();
}

std::string peft_folder_of(const std::string& model) {
  const std::filesystem::path path(model), folder = path.parent_path();
  if (has_usual_name(path)) return folder.empty() ? "." : folder.string();
  const bool taken = path.extension().empty();  // the folder would have the model's path
  return (folder / (path.stem().string() + (taken ? ".peft" : ""))).string();
}

std::vector<std::string> run_file_names(const std::string& folder) {
  std::vector<std::string> out(kRunFiles.begin(), kRunFiles.end());
  const std::vector<std::string> there = list_dir(folder);
  std::copy_if(there.begin(), there.end(), std::back_inserter(out), is_event_file);
  return out;
}

std::optional<RunRecord> read_record(const std::string& folder) {
  const std::string path = folder + "/" + kRecordFile;
  if (!path_exists(path)) return earlier_record(folder);
  try {
    const json j = json::parse(read_file(path, Exit::storage).text());
    if (j.at("format") != kFormat) return std::nullopt;
    RunRecord out;
    for (const auto& [name, f] : j.at("files").items())
      out.files[name] = {f.at("bytes").get<int64_t>(), f.at("crc32c").get<std::string>()};
    return out;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

bool has_record(const std::string& folder) { return path_exists(folder + "/" + kRecordFile); }

void write_record(const std::string& folder, const RunRecord& record) {
  json files = json::object();
  for (const auto& [name, f] : record.files) files[name] = {{"bytes", f.size}, {"crc32c", f.crc32c}};
  FileWriter file(folder + "/" + kRecordFile);
  file.write(json{{"format", kFormat}, {"version", 1}, {"files", files}}.dump(1) + "\n");
  file.commit();
}

std::vector<std::string> own_paths(const std::string& folder) {
  const std::optional<RunRecord> record = read_record(folder);
  std::vector<std::string> out;
  if (!record) return out;
  for (const std::string& name : run_file_names(folder)) {
    if (name != kCheckpoints && path_exists(folder + "/" + name) && doubt(folder, name, record).empty())
      out.push_back(name);
  }
  for (std::string& name : checkpoint_names(folder)) out.push_back(std::move(name));
  return out;
}

bool is_own_name(const std::string& path) {
  const std::string prefix = "checkpoints/checkpoint-";
  if (path.rfind(prefix, 0) == 0) {
    const std::string digits = path.substr(prefix.size());
    return !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
  }
  return path == kRecordFile || is_event_file(path) ||
         (path != kCheckpoints && std::find(kRunFiles.begin(), kRunFiles.end(), path) != kRunFiles.end());
}

std::vector<std::string> foreign_paths(const std::string& folder) {
  const std::optional<RunRecord> record = read_record(folder);
  std::vector<std::string> out;
  for (const std::string& name : run_file_names(folder)) {
    const std::string path = folder + "/" + name;
    if (!path_exists(path)) continue;
    // An empty folder was prepared for a run.
    if (name == kCheckpoints && is_dir(path) && list_dir(path).empty()) continue;
    const std::string why = doubt(folder, name, record);
    if (!why.empty()) out.push_back(cat("'", printable(path), "': ", why));
  }
  return out;
}

bool is_run_folder(const std::string& path) {
  return is_dir(path) && (path_exists(path + "/" + kExportRecord) || is_dir(path + "/" + kCheckpoints));
}

bool holds_results(const std::string& folder) {
  struct stat s;
  const std::string log = folder + "/metrics.jsonl";
  if (::stat(log.c_str(), &s) == 0 && s.st_size > 0) return true;
  return path_exists(folder + "/model.onnx") || !list_checkpoints(folder + "/" + kCheckpoints).empty();
}

void remove_own(const std::string& path) { is_dir(path) ? remove_checkpoint(path) : remove_tree(path); }

void remove_run(const std::string& folder) {
  for (const std::string& path : own_paths(folder)) remove_own(folder + "/" + path);
  remove_tree(folder + "/" + kRecordFile);
}

namespace {
// Returns the id of the process in the name of a temporary file: 12 for "report.html.tmp-12",
// "model.onnx.tmp-trial-12", ".probe-12-renamed". Returns 0 if the name is not that of a run's temporary file.
int64_t process_of(const std::string& name) {
  constexpr std::string_view probe = ".probe-", temporary = ".tmp-", trial = "trial-";
  std::string_view rest = name;
  if (rest.starts_with(probe)) {
    rest.remove_prefix(probe.size());
  } else {
    const size_t at = name.find(temporary);
    if (at == std::string::npos) return 0;
    const std::string of = name.substr(0, at);
    if (!is_own_name(of) && of != kMoveFile) return 0;
    rest.remove_prefix(at + temporary.size());
    if (rest.starts_with(trial)) rest.remove_prefix(trial.size());
  }
  rest = rest.substr(0, rest.find('-'));
  return all_digits(rest) ? parse_integer(rest).value_or(0) : 0;
}

// Returns whether a process with this id runs that is not this process. It may be a new process with the id of an ended
// one; its file is then kept too, so that no file in use is removed.
bool is_running(int64_t process) {
  return process != ::getpid() && (::kill(static_cast<pid_t>(process), 0) == 0 || errno != ESRCH);
}
}  // namespace

void remove_stale(const std::string& folder) {
  if (is_link(folder) || !is_dir(folder)) return;
  for (const std::string& name : list_dir(folder)) {
    const int64_t process = process_of(name);
    if (process > 0 && !is_running(process)) remove_tree(folder + "/" + name);
  }
}

void remove_aside(const std::string& folder) {
  if (is_link(folder) || !is_dir(folder)) return;
  for (const std::string& path : checkpoint_names(folder)) remove_own(folder + "/" + path);
  clean_checkpoints(folder + "/" + kCheckpoints);
  if (!is_link(folder + "/" + kCheckpoints)) ::rmdir((folder + "/" + kCheckpoints).c_str());
  for (const std::string& name : list_dir(folder)) {
    const size_t temporary = name.find(".tmp-");
    const std::string of = name.substr(0, temporary);
    if (is_own_name(of) || (of == kMoveFile && temporary != std::string::npos)) remove_tree(folder + "/" + name);
  }
  ::rmdir(folder.c_str());
}

}  // namespace amp
