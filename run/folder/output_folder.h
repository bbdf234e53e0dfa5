// The folder of a run: what may be in it when the run starts, where the run writes, how its results get their places.
//
// A run in a folder without results writes there; model.onnx and the final run.json are put together in "<dir>/.finish"
// and moved to their places when they are complete. A run that replaces another (--overwrite) writes everything into
// "<dir>/.new-run" and takes the old one's place at its end: until then the old run is whole. Stopped or killed, it
// goes on there with --resume auto; --overwrite begins it again; removing .new-run gives it up.
// A move is written down (".move.json" in the folder that is moved) before it begins: the next start finishes what a
// crash cut short.
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
  std::string resume = "none";  // none, auto, a checkpoint's path, or that of a folder with checkpoints
  bool overwrite = false;
  std::vector<std::pair<std::string, std::string>> inputs;  // what the run reads: "--train" and its path
};

class OutputFolder {
 public:
  // Looks, locks and loads the checkpoint to go on from; changes nothing but an interrupted move, which it finishes.
  // Exit::usage: E_OUTPUT_INPUT (an input lies where the run would write), E_OUTPUT_FOREIGN (a file there that no run
  // wrote), E_OUTPUT_EXISTS (a run's results, and neither resume nor overwrite); Exit::locked; Exit::checkpoint:
  // E_CKPT_MISSING, E_CKPT_DAMAGED (none of those that are there can be used); Exit::storage.
  explicit OutputFolder(OutputRequest request, Log log = {});
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder();  // a folder that was not begun is left as it was found

  const std::string& work() const { return work_; }  // where logs, plan and checkpoints go
  bool replaces() const { return replaces_; }        // another run: work() is aside
  const std::optional<Checkpoint>& checkpoint() const { return checkpoint_; }
  void forget_checkpoint() { checkpoint_.reset(); }  // its memory

  void begin();               // the inputs are good: makes the folder, clears what an earlier start left
  std::string finish_path();  // the folder for model.onnx and the final run.json, made now
  void publish();             // those, or the whole new run, take their places

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

// Finishes a move that was cut short, if there is one and nobody else holds the folder: before a run is read.
void finish_interrupted_move(const std::string& dir);

// The newest usable checkpoint of a folder of checkpoints; E_CKPT_MISSING, E_CKPT_DAMAGED.
Checkpoint newest_checkpoint(const std::string& checkpoints, const Log& log = {});

}  // namespace amp
