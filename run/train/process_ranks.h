// The ranks that a launcher (mpirun, srun, torchrun) started as processes; one_rank() without a launcher. They
// communicate over MPI if it is available, else over TCP.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "trainer/comm/failure_detector.h"

namespace amp {

bool launched();  // true if a launcher started several processes. E_FLAG_VALUE for invalid launcher variables

int free_port();  // a free port of the loopback address; 0 on failure, with errno

class Processes {
 public:
  // heartbeat: seconds without a message after which a process counts as lost. Then one of the remaining processes
  // passes the error to tell(), and all remaining processes exit with its code.
  Processes(double heartbeat, std::function<void(const Error&)> tell);
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes();

  Communicator& ranks() const { return *ranks_; }
  void doing(int64_t step, const char* phase);
  // Runs f(). Reports its exception to the other processes and rethrows it.
  template <class F>
  auto guard(const F& f) {
    try {
      return f();
    } catch (const std::exception& e) {
      failed(e);
      throw;
    }
  }
  void end();  // called on success; a failing process skips it

 private:
  void failed(const std::exception& e);

  std::unique_ptr<Communicator> tcp_;
  Communicator* ranks_ = &one_rank();
  std::optional<FailureDetector> failure_detector_;
};

}  // namespace amp
