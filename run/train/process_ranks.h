// The ranks that a launcher started as processes: mpirun, srun, torchrun; one_rank() where none did. They speak by MPI
// where it was offered, else by TCP.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "trainer/comm/failure_detector.h"

namespace amp {

bool launched();  // as one of several processes. E_FLAG_VALUE for a launcher's variables that mean nothing

int free_port();  // of the loopback address; 0: there is none, and errno says why

class Processes {
 public:
  // heartbeat: seconds without a sign of life of another process. When one is lost, the error is given to tell by one
  // of the others, and all of them end with its exit code.
  Processes(double heartbeat, std::function<void(const Error&)> tell);
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes();

  Communicator& ranks() const { return *ranks_; }
  void doing(int64_t step, const char* phase);
  // What of this process's work it throws is told to the others.
  template <class F>
  auto guard(const F& f) {
    try {
      return f();
    } catch (const std::exception& e) {
      failed(e);
      throw;
    }
  }
  void end();  // a process that fails leaves without

 private:
  void failed(const std::exception& e);

  std::unique_ptr<Communicator> tcp_;
  Communicator* ranks_ = &one_rank();
  std::optional<FailureDetector> failure_detector_;
};

}  // namespace amp
