#include "base/threads.h"

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace amp {

int startable_threads(int wanted) {
  std::atomic<bool> over{false};
  std::vector<std::jthread> started;  // its destructor joins the threads
  const struct End {                  // its destructor ends the threads, also if an exception is thrown
    std::atomic<bool>& over;
    ~End() {
      over = true;
      over.notify_all();
    }
  } end{over};
  try {
    for (int i = 0; i < wanted; ++i) started.emplace_back([&over] { over.wait(false); });
  } catch (const std::system_error&) {  // EAGAIN: a limit of threads or memory was reached
  }
  return static_cast<int>(started.size());
}

}  // namespace amp
