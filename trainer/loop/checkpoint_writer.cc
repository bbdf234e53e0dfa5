// One thread, one mutex and one condition variable. The thread takes the save out of the shared members, writes it
// without the lock, and then stores result and error. It releases its own references first, so that tensors and error
// are destroyed by one thread only.
#include "trainer/loop/checkpoint_writer.h"

#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/steady_seconds.h"

namespace amp {

SaveResult write_now(const std::string& dir, const Save& save) {
  SaveResult result;
  const double began = steady_seconds();
  SaveOptions options = save.options;
  options.warn = [&result](const std::string& why) { result.warnings.push_back(why); };
  if (save.before) save.before();
  for (const Checkpoint& c : save.checkpoints) save_checkpoint(dir, c, options);
  result.seconds = steady_seconds() - began;
  return result;
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return busy_ || ending_; });
    if (!busy_) return;
    Save save = std::exchange(save_, {});
    lock.unlock();
    SaveResult result;
    std::exception_ptr error;
    try {
      result = write_now(dir_, save);
    } catch (...) {
      error = std::current_exception();
    }
    save = {};  // frees the copy before the next copy is made
    lock.lock();
    result_ = std::move(result);
    error_ = std::move(error);
    busy_ = false;
    changed_.notify_all();
  }
}

void CheckpointWriter::start(Save save) {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {  // thrown if the number of processes is limited
      result_ = write_now(dir_, save);
      return;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    check(!busy_ && !error_, "a checkpoint is written while another one is");
    save_ = std::move(save);
    busy_ = true;
  }
  changed_.notify_all();
}

bool CheckpointWriter::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

SaveResult CheckpointWriter::take() { return take(std::unique_lock(mutex_)); }

SaveResult CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  return take(std::move(lock));
}

SaveResult CheckpointWriter::take(std::unique_lock<std::mutex> lock) {
  const std::exception_ptr error = std::exchange(error_, nullptr);
  SaveResult result = std::exchange(result_, {});
  lock.unlock();
  if (error) std::rethrow_exception(error);
  return result;
}

}  // namespace amp
