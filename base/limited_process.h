// A forked child process that computes one function under limits of processor time, memory and reply length. It runs
// third-party code whose behavior depends on an untrusted file. A stack overflow or an endless loop in that code does
// not affect the parent.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace amp {

// The limits of a process: fixed amounts, and amounts that are added for each step or byte of its requests.
struct ProcessLimits {
  double seconds = 0.5;                                     // processor time for any number of requests
  double seconds_per_step = 0.02, seconds_per_byte = 2e-6;  // for each step of a request, and each byte of a step
  int64_t bytes = int64_t{64} << 20;                        // memory beyond what the process uses at the fork
  int64_t bytes_per_byte = 32;                              // memory added for each byte of the largest request
  int64_t reply = int64_t{4} << 20;                         // fixed part of a reply's largest length
  int64_t reply_per_byte = 4;
};

class LimitedProcess {
 public:
  using Function = std::function<std::string(std::string_view request)>;
  enum class Outcome {
    answered,
    refused,  // the function threw; the process can be used again
    time,
    memory,
    reply,    // the reply is too long
    crashed,  // ended by a signal, for example after a stack overflow
  };
  struct Reply {
    Outcome outcome = Outcome::crashed;
    std::string text;  // the reply, or the message of the function's exception
  };

  // Forks a child process. Only `function` runs in the child, on a copy of this process's memory; it must start no
  // threads. Throws E_OOM if no process can be started.
  explicit LimitedProcess(const Function& function, ProcessLimits limits = {});
  LimitedProcess(const LimitedProcess&) = delete;
  LimitedProcess& operator=(const LimitedProcess&) = delete;
  ~LimitedProcess();  // ends the child

  // Sends a request and waits for the reply. steps: how many times the function processes the request. After an outcome
  // other than `answered` and `refused` the child has ended, and further calls return `crashed`.
  Reply ask(std::string_view request, int64_t steps = 1);

 private:
  Reply ended();
  ProcessLimits limits_;
  pid_t child_ = -1;
  int socket_ = -1;
  double seconds_ = 0;  // total processor time allowed for the requests so far
};

}  // namespace amp
