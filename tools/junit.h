// Junit: the summary of a run as JUnit XML (`--junit`), which CI systems show beside their tests. It has one test case
// for the run and one for each gate of `require`.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "run/prepare/objective.h"

namespace amp {

class Junit {
 public:
  // path: the file to write; if it is empty, all calls write nothing. verb: the name of the test suite.
  Junit(std::string path, std::string verb, Log log);

  // Runs body(), and writes the file however body() ends: with an exit code or with an Error, which is thrown again.
  // While body() runs, the file reports an unfinished run, so that a killed program leaves a failed test. Throws
  // storage_error() before body() if the file cannot be written; a later failure to write is a warning.
  int record(const std::function<int()>& body);

  void gates(std::vector<GateResult> results) { gates_ = std::move(results); }  // call before check_gates()
  void leave_out() { path_.clear(); }  // called in ranks other than the first: only one process writes the file

 private:
  enum class End { done, failed, stopped };
  void write(End end, const std::string& id, const std::string& message) const;
  void write_after(End end, const std::string& id, const std::string& message) const;  // failure to write: a warning

  std::string path_, verb_;
  Log log_;
  std::vector<GateResult> gates_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace amp
