// The state machine of a run's folder. A run writes into the folder itself, or into .new-run if it replaces another
// run.
// Final files are staged in .finish. A move is first written down in .move.json, so that a crash during the move is
// completed by the next start; each step of finish_move() must therefore be repeatable.
#include "run/folder/output_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "run/folder/run_files.h"
#include "run/settings/settings.h"
#include "trainer/loop/checked_state.h"

namespace amp {

namespace {
using nlohmann::json;
constexpr const char* kNewRun = "/.new-run";
constexpr const char* kFinish = "/.finish";
const std::string kMove = std::string("/") + kMoveFile;

std::string canonical(const std::string& path) {
  std::error_code e;
  const auto p = std::filesystem::weakly_canonical(path, e);
  return e ? path : p.string();
}

bool lies_in(const std::string& path, const std::string& folder) {
  return path == folder || path.rfind(folder + "/", 0) == 0;
}

// Fails unless the nearest existing parent folder is writable.
void require_creatable(const std::string& dir) {
  std::filesystem::path p = std::filesystem::absolute(dir).lexically_normal();
  while (!path_exists(p.string()) && p.has_relative_path())
    p = p.has_filename() ? p.parent_path() : p.parent_path().parent_path();
  if (!is_dir(p.string())) storage_error("cannot create folder", dir, ENOTDIR);
  if (::access(p.c_str(), W_OK | X_OK) != 0) storage_error("cannot create folder", dir, errno);
}

void move_entry(const std::string& staged, const std::string& dir, const std::string& name) {
  const std::string from = staged + "/" + name, to = dir + "/" + name;
  if (!path_exists(from)) return;  // already moved before a crash
  if (is_dir(from) && path_exists(to)) {
    // If `from` lacks files, then `to` holds a complete copy: the process ended while move_path() removed `from`.
    // Otherwise `to` belongs to the replaced run. Files that cannot be read prove nothing: `from` is then the only
    // copy.
    if (lacks_files(from)) return remove_tree(from);
    remove_checkpoint(to);
  }
  move_path(from, to);
}

// Returns the paths of a recorded move. Paths that are not names of a run's files (is_own_name()) are ignored, because
// the file may be forged.
std::vector<std::string> listed(const json& j, const char* key) {
  std::vector<std::string> out;
  for (const json& name : j.at(key)) {
    if (is_own_name(name.get<std::string>())) out.push_back(name.get<std::string>());
  }
  return out;
}

void finish_move(const std::string& staged, const std::string& dir) {
  if (!path_exists(staged + kMove)) return;
  try {
    const json j = json::parse(read_file(staged + kMove, Exit::storage).text());
    const std::vector<std::string> names = listed(j, "move");
    if (path_exists(staged + "/checkpoints")) ensure_dir(dir + "/checkpoints");
    for (const std::string& name : names) move_entry(staged, dir, name);
    for (const std::string& name : listed(j, "remove")) remove_own(dir + "/" + name);
    ::rmdir((staged + "/checkpoints").c_str());
    ::unlink((staged + kMove).c_str());  // the move is complete; the remaining files are leftovers
    remove_aside(staged);
  } catch (const json::exception& e) {
    fail(Exit::storage, "E_MOVE", cat("'", printable(staged + kMove), "' cannot be read: ", e.what()),
         "remove that file: the run in the folder above it is then the one that counts");
  }
}

std::vector<std::string> minus(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.erase(std::remove_if(a.begin(), a.end(),
                         [&](const std::string& x) { return std::find(b.begin(), b.end(), x) != b.end(); }),
          a.end());
  return a;
}

// Returns the paths in a staging folder that belong into the run's folder.
std::vector<std::string> movable(const std::string& staged) {
  std::vector<std::string> out;
  for (const std::string& name : run_file_names(staged)) {
    if (is_own_name(name) && path_exists(staged + "/" + name)) out.push_back(name);
  }
  for (const int64_t step : list_checkpoints(staged + "/checkpoints"))
    out.push_back(checkpoint_path("checkpoints", step));
  out.push_back(kRecordFile);
  return out;
}

[[noreturn]] void none_usable(const std::string& folder, const std::vector<std::string>& damages) {
  fail(Exit::checkpoint, "E_CKPT_DAMAGED",
       cat("none of the ", damages.size(), " checkpoints in '", printable(folder),
           "' can be used: ", join(damages, "; ")),
       "start afresh with `overwrite`: they stay until the new run is complete");
}

[[noreturn]] void best_unusable(const Error& e) {
  Error out(e.exit(), e.id(), cat("the best checkpoint cannot be exported: ", e.fact()),
            "`export_weights` last exports the last weights, which are not affected; suspect the disk");
  for (const std::string& where : e.where()) out.at(where);
  throw out;
}

Latest usable(const std::string& checkpoints, const Log& log) {
  Latest latest = find_latest(checkpoints);
  if (latest.path.empty() && !latest.skipped.empty()) none_usable(checkpoints, latest.skipped);
  for (const std::string& s : latest.skipped) log.warning(cat("W_CKPT_FALLBACK: ", s));
  return latest;
}
}  // namespace

Checkpoint newest_checkpoint(const std::string& checkpoints, const Log& log) {
  Latest latest = usable(checkpoints, log);
  if (latest.path.empty())
    fail(Exit::checkpoint, "E_CKPT_MISSING", cat("there is no checkpoint in '", printable(checkpoints), "'"),
         "a run saves the first one at the end of its first epoch, or after `save_steps`; `save_strategy` no saves "
         "none");
  return std::move(latest.checkpoint);
}

Checkpoint best_checkpoint(const std::string& checkpoints, int64_t step) {
  try {
    return load_checkpoint(checkpoint_path(checkpoints, step));
  } catch (const Error& e) {
    best_unusable(e);
  }
}

void verify_best(const std::string& checkpoints, const Checkpoint& newest) {
  const int64_t step = best_step_of(newest);
  if (step < 0 || step == newest.step) return;
  try {
    verify_checkpoint(checkpoint_path(checkpoints, step));
  } catch (const Error& e) {
    best_unusable(e);
  }
}

int64_t best_step_of(const Checkpoint& checkpoint) {
  return CheckedState::of(checkpoint).member("best").whole("step", -1, checkpoint.step);
}

void finish_interrupted(const std::string& dir) {
  if (path_exists(dir + kNewRun + kMove) || path_exists(dir + kFinish + kMove)) {
    const DirLock lock(dir);
    finish_move(dir + kNewRun, dir);
    finish_move(dir + kFinish, dir);
  }
  if (!has_temporary_checkpoints(dir + "/checkpoints")) return;
  try {
    const DirLock lock(dir);
    recover_checkpoints(dir + "/checkpoints");
  } catch (const Error&) {
    // The folder is read-only, or a running process is saving. The other checkpoints are used.
  }
}

OutputFolder::OutputFolder(OutputRequest request, Log log)
    : request_(std::move(request)), log_(std::move(log)), work_(request_.dir) {
  const std::string& dir = request_.dir;
  existed_ = path_exists(dir);
  if (existed_) {
    if (!is_dir(dir)) storage_error("cannot use as a folder", dir, ENOTDIR);
    if (::access(dir.c_str(), W_OK | X_OK) != 0) storage_error("cannot write in folder", dir, errno);
    refuse_inputs();
    if (!path_exists(dir + "/.lock")) refuse_foreign();  // may be a user's folder: do not even create a lock in it
    lock();
    examine();
  } else {
    require_creatable(dir);
  }
  choose_run();
}

OutputFolder::~OutputFolder() {
  if (finish_begun_ && !path_exists(request_.dir + kFinish + kMove)) {
    try {
      remove_aside(request_.dir + kFinish);
    } catch (const Error&) {  // report only the error that led here
    }
  }
  if (!begun_ && new_lock_) ::unlink((request_.dir + "/.lock").c_str());  // the lock is still held
  lock_.reset();
}

void OutputFolder::lock() {
  new_lock_ = !path_exists(request_.dir + "/.lock");
  lock_ = std::make_unique<DirLock>(request_.dir);
}

void OutputFolder::examine() {
  finish_move(request_.dir + kNewRun, request_.dir);
  finish_move(request_.dir + kFinish, request_.dir);
  // rmdir() removes only an empty folder. Such a folder is left if a process was killed after it had moved the files.
  ::rmdir((request_.dir + kNewRun).c_str());
  refuse_foreign();
  for (const std::string& folder : {request_.dir, request_.dir + kNewRun}) {
    for (const std::string& path : recover_checkpoints(folder + "/checkpoints"))
      log_.note(cat("recovered ", path, ", which was complete when a save was interrupted"));
  }
}

void OutputFolder::refuse_inputs() const {
  const std::string dir = canonical(request_.dir);
  for (const auto& [flag, path] : request_.inputs) {
    if (path.empty()) continue;
    const std::string input = canonical(path);
    bool written = lies_in(input, dir + kNewRun) || lies_in(input, dir + kFinish);
    for (const std::string name : kRunFiles) written |= lies_in(input, dir + "/" + name);
    if (!written) continue;
    fail(Exit::usage, "E_OUTPUT_INPUT",
         cat(flag, " '", printable(path), "' would be overwritten by the run: it is in `output_dir` '",
             printable(request_.dir), "'"),
         "choose another `output_dir`");
  }
}

void OutputFolder::refuse_foreign() const {
  const std::vector<std::string> foreign = foreign_paths(request_.dir);
  if (foreign.empty()) return;
  fail(Exit::usage, "E_OUTPUT_FOREIGN",
       cat("`output_dir` holds files that a run would replace and that no run is known to have written: ",
           join(foreign, "; ")),
       "choose another `output_dir`, or move these files away; `overwrite` replaces only a run");
}

void OutputFolder::choose_run() {
  const std::string dir = request_.dir, aside = dir + kNewRun, resume = request_.resume;
  if (resume == "none") {
    const bool results = holds_results(dir);
    if (results && !request_.overwrite) {
      fail(Exit::usage, "E_OUTPUT_EXISTS", cat("'", printable(dir), "' holds a run already"),
           "continue it with `resume` auto, or replace it with `overwrite`");
    }
    replaces_ = results;
  } else if (resume == "auto") {
    replaces_ = read_record(aside).has_value();
    Latest latest = usable((replaces_ ? aside : dir) + "/checkpoints", log_);
    if (!latest.path.empty()) {
      log_.note(cat("resuming from ", latest.path));
      checkpoint_ = std::move(latest.checkpoint);
    }
  } else {
    replaces_ = lies_in(canonical(resume), canonical(aside));
    checkpoint_ =
        path_exists(resume + "/manifest.json")
            ? load_checkpoint(resume)
            : newest_checkpoint(path_exists(resume + "/checkpoints") ? resume + "/checkpoints" : resume, log_);
  }
  if (checkpoint_) add_new_settings(checkpoint_->hashes);
  if (!replaces_) return;
  work_ = aside;
  if (std::error_code e; std::filesystem::is_symlink(dir + "/checkpoints", e)) {
    fail(Exit::usage, "E_OUTPUT_FOREIGN",
         cat("'", printable(dir), "/checkpoints' is a link: a run cannot be put in its place"),
         "choose another `output_dir`");
  }
  log_.note(cat("this run is written to ", aside, " and takes the place of the one in ", dir, " when it is complete"));
}

void OutputFolder::begin() {
  const std::string& dir = request_.dir;
  if (!existed_) {
    ensure_dir(dir);
    lock();
    examine();
    if (request_.resume == "none" && holds_results(dir))  // another run began and ended meanwhile
      fail(Exit::usage, "E_OUTPUT_EXISTS", cat("'", printable(dir), "' holds a run already"),
           "continue it with `resume` auto, or replace it with `overwrite`");
  }
  try {
    remove_stale(dir);
    if (work_ != dir) remove_stale(work_);
    probe_storage(dir, 1 << 20);
    remove_aside(dir + kFinish);
    if (request_.resume == "none") {
      remove_aside(dir + kNewRun);
      if (!replaces_) remove_run(dir);
    } else {
      clean_checkpoints(work_ + "/checkpoints");
    }
    ensure_dir(work_);
    if (!has_record(work_) || !read_record(work_)) write_record(work_, {});
  } catch (const Error&) {
    if (!existed_) {
      ::unlink((dir + "/.lock").c_str());
      ::rmdir(dir.c_str());
    }
    throw;
  }
  begun_ = true;
}

std::string OutputFolder::finish_path() {
  require_present();
  if (replaces_) return work_;
  const std::string path = request_.dir + kFinish;
  finish_begun_ = true;
  remove_aside(path);
  finishing_.push_back(std::make_unique<TemporaryPath>(path));
  for (const char* name : kModelFiles) finishing_.push_back(std::make_unique<TemporaryPath>(path + "/" + name));
  for (const char* name : {"run.json", kRecordFile})
    finishing_.push_back(std::make_unique<TemporaryPath>(path + "/" + name));
  ensure_dir(path);
  return path;
}

void OutputFolder::publish() {
  const std::string &dir = request_.dir, staged = replaces_ ? work_ : dir + kFinish;
  require_present();
  refuse_foreign();  // files may have been added meanwhile
  RunRecord record;
  for (const std::string name : kModelFiles) {
    const std::string path = staged + "/" + name;
    if (!path_exists(path)) continue;
    record.files[name] = sum_of_file(path);
    if (const int code = record.files[name].error) storage_error("cannot read", path, code);
  }
  write_record(staged, record);
  const std::vector<std::string> move = movable(staged);
  std::vector<std::string> remove = minus(own_paths(dir), move);
  if (!replaces_) {  // logs and checkpoints belong to this run, so only the model files may be outdated
    remove.erase(std::remove_if(remove.begin(), remove.end(),
                                [](const std::string& n) {
                                  return std::find(kModelFiles.begin(), kModelFiles.end(), n) == kModelFiles.end();
                                }),
                 remove.end());
  }
  FileWriter file(staged + kMove);
  file.write(json{{"move", move}, {"remove", remove}}.dump(1) + "\n");
  finishing_.clear();  // complete: signals no longer remove it
  file.commit();
  finish_move(staged, dir);
}

}  // namespace amp
