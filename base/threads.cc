#include "base/threads.h"

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace amp {

int startable_threads(int wanted) {
  std::atomic<bool> over{false};
  std::vector<std::jthread> started;  // joined by its destructor
  const struct End {                  // ends the threads, also if an exception is thrown
    std::atomic<bool>& over;
    ~End() {
      over = true;
      over.notify_all();
    }
  } end{over};
  try {
    for (int i = 0; i < wanted; ++i) started.emplace_back([&over] { over.wait(false); });
  } catch (const std::system_error&) {  // EAGAIN: a limit
  }
  return static_cast<int>(started.size());
}

}  // namespace amp
