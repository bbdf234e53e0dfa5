// Child processes of `sweep`: each runs this program with another command line.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace amp {

class SweepProcesses {
 public:
  // Blocks SIGCHLD and the stop signals while the object exists. jobs: the number of processes that run at the same
  // time; unless OMP_NUM_THREADS is set, each process gets an equal share of the cores.
  explicit SweepProcesses(int64_t jobs);
  SweepProcesses(const SweepProcesses&) = delete;
  SweepProcesses& operator=(const SweepProcesses&) = delete;
  ~SweepProcesses();  // stops processes that still run, and waits for them

  // Starts this program with `words` as its arguments. Standard output and error are appended to the file `log`.
  // The process is stopped if this process ends for any reason. Throws E_SWEEP_START.
  void start(size_t run, const std::vector<std::string>& words, const std::string& log);
  size_t running() const { return children_.size(); }

  struct Ended {
    size_t run = 0;
    int code = 0;    // exit code; 128 + the signal's number if a signal ended it
    int signal = 0;  // the signal that ended the process; 0: none
  };
  // Waits for the end of a process, for a stop signal, or `seconds`. Returns the processes that ended. A stop signal
  // to this process is passed on to all processes; stop_signal() then returns it.
  std::vector<Ended> wait(double seconds);
  int stop_signal() const { return stop_signal_; }  // the stop signal received so far; 0: none
  void stop(size_t run) const;                      // asks the process to stop after its step

 private:
  struct Child {
    pid_t process = 0;
    size_t run = 0;
  };
  sigset_t waited_{}, before_{};
  std::vector<Child> children_;
  std::string threads_;  // OMP_NUM_THREADS of the processes; empty: they inherit it
  int stop_signal_ = 0;
};

}  // namespace amp
