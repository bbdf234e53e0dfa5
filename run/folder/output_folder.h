// The output folder of a run: which contents are accepted at the start, where the run writes, and how its results are
// published.
//
// A run in a folder without results writes there. model.onnx and the final run.json are staged in "<dir>/.finish" and
// moved when they are complete.
// A run that replaces another (--overwrite) writes everything into "<dir>/.new-run" and replaces the old run at its
// end; until then the old run is intact. If it is stopped or killed, --resume auto continues it, --overwrite starts it
// again, and removing .new-run discards it.
// A move of files out of a staging folder (.finish or .new-run) is recorded in its ".move.json" before it begins. The
// next start completes a move that a crash interrupted, renames complete temporary checkpoints back
// (trainer/loop/checkpoint.h) and removes the temporary files of ended processes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fs.h"
#include "base/log.h"
#include "base/temporary.h"
#include "trainer/loop/checkpoint.h"

namespace amp {

struct OutputRequest {
  std::string dir;
  std::string resume = "none";  // none, auto, or the path of a checkpoint or of a folder with checkpoints
  bool overwrite = false;
  std::vector<std::pair<std::string, std::string>> inputs;  // files that the run reads: {"`train`", path}
};

class OutputFolder {
 public:
  // Inspects and locks the folder, and loads the checkpoint to resume from. Changes nothing, except that it completes
  // an interrupted move and recovers checkpoints.
  // Exit::usage: E_OUTPUT_INPUT (an input is stored where the run would write), E_OUTPUT_FOREIGN (a file that no run
  // wrote), E_OUTPUT_EXISTS (a run's results, without resume or overwrite). Exit::locked. Exit::checkpoint:
  // E_CKPT_MISSING, E_CKPT_DAMAGED (no checkpoint is usable). Exit::storage.
  explicit OutputFolder(OutputRequest request, Log log = {});
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder();  // leaves the folder unchanged if begin() was not called

  const std::string& work() const { return work_; }  // folder of logs, plan and checkpoints
  bool replaces() const { return replaces_; }        // this run replaces another; work() is .new-run
  std::optional<Checkpoint>& checkpoint() { return checkpoint_; }
  const std::optional<Checkpoint>& checkpoint() const { return checkpoint_; }
  void forget_checkpoint() { checkpoint_.reset(); }  // frees its memory

  void begin();  // call after the inputs are checked: creates the folder, removes leftovers of earlier starts
  std::string finish_path();  // creates and returns the staging folder of model.onnx and run.json
  void publish();             // moves the staged files, or all files of .new-run, into the output folder
  // Fails with E_WRITE if the folder was removed or replaced after begin(). Called before each save.
  void require_present() const { lock_->require_present(); }

 private:
  void examine();
  void choose_run();
  void refuse_inputs() const;
  void refuse_foreign() const;
  void lock();

  OutputRequest request_;
  Log log_;
  std::string work_;
  bool replaces_ = false, existed_ = false, begun_ = false, finish_begun_ = false, new_lock_ = false;
  std::unique_ptr<DirLock> lock_;
  std::optional<Checkpoint> checkpoint_;
  std::vector<std::unique_ptr<TemporaryPath>> finishing_;
};

// Completes an interrupted move, if there is one and no other process holds the folder; recovers checkpoints if nothing
// prevents it. Call it before reading a run.
void finish_interrupted(const std::string& dir);

// Returns the newest usable checkpoint of a folder of checkpoints. Throws E_CKPT_MISSING, E_CKPT_DAMAGED.
Checkpoint newest_checkpoint(const std::string& checkpoints, const Log& log = {});
// Returns the step of the best evaluation so far; -1: none. Throws E_CKPT_STATE.
int64_t best_step_of(const Checkpoint& checkpoint);
// Loads the best checkpoint for an export. If it is damaged, the hint says how to export other weights.
Checkpoint best_checkpoint(const std::string& checkpoints, int64_t step);
// Throws the errors of best_checkpoint() without loading.
void verify_best(const std::string& checkpoints, const Checkpoint& newest);

}  // namespace amp
