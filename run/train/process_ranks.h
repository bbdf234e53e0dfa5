// The ranks that a launcher (mpirun, srun, torchrun) started as processes; one_rank() without a launcher. They
// communicate over MPI if it is available, else over TCP.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "trainer/comm/failure_detector.h"

namespace amp {

struct DistributionSpec;

bool launched();  // true if a launcher started several processes. E_FLAG_VALUE for invalid launcher variables

int free_port();  // a free port of the loopback address; 0 on failure, with errno

// Environment variable with the token: a secret of all ranks, without which a process cannot join the run.
inline constexpr const char* kRankTokenVariable = "ONNX_AMP_RANK_TOKEN";
// Returns the token in the file, without line breaks at its end; if `file` is empty, that of the environment variable;
// "" if there is neither. Throws E_FILE_MISSING or E_FILE_READ, and E_FLAG_VALUE if the file has no text or more than
// 4096 bytes.
std::string rank_token(const std::string& file);
std::string random_rank_token();  // "" if the system has no random numbers

class Processes {
 public:
  // After spec.heartbeat seconds without a message, a process counts as lost. Then one of the remaining processes
  // passes the error to report(), and all remaining processes exit with its code. log receives notes about connections
  // of processes that are not ranks.
  Processes(const DistributionSpec& spec, Log log, std::function<void(const Error&)> report);
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
