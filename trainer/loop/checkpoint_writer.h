// Writes the checkpoints of a run on a separate thread, so that steps do not wait for the disk. At most one save is
// in progress. Errors and warnings of a save are reported to the thread that started it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trainer/loop/checkpoint.h"

namespace amp {

// One save. It owns its tensors if another thread writes it.
struct Save {
  std::vector<Checkpoint> checkpoints;  // written in this order: checkpoints are pruned in the order of their steps
  SaveOptions options;                  // `warn` is not called
  std::function<void()> before;         // called first; may fail. Must be callable from another thread
};

// The result of finished saves, for the thread that started them.
struct SaveResult {
  double seconds = 0;                 // time of writing
  std::vector<std::string> warnings;  // reasons why old checkpoints could not be removed
};

// Writes the save's checkpoints into `dir` and returns when they are durable. Throws the errors of save_checkpoint().
SaveResult write_now(const std::string& dir, const Save& save);

// All member functions are called by one thread.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(std::string dir) : dir_(std::move(dir)) {}
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  // Finishes the save in progress. Its error is lost, so the caller calls finish() before.
  ~CheckpointWriter();

  // Starts a save and returns. Requires that none is in progress and that its result was taken. If no thread can be
  // started, the save is written before start() returns.
  void start(Save save);
  bool busy() const;  // whether a save is in progress
  // Returns the results of the saves that have finished since the last call. Throws the error of a failed save, once.
  SaveResult take();
  SaveResult finish();  // waits for the save in progress; then as take()

 private:
  void work();                                    // the body of the thread
  SaveResult take(std::unique_lock<std::mutex>);  // requires the lock

  const std::string dir_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // guarded by mutex_
  Save save_;
  SaveResult result_;
  std::exception_ptr error_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;  // started by the first save
};

}  // namespace amp
