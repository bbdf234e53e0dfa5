// Errors. An error consists of a fact, the places where it occurred, and a hint. Inner code throws only the fact, with
// fail(); each outer layer adds its place with Error::at(). Style of a fact: "MatMul: inner dimensions differ: A
// [8,384] x B [512,384]".
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/cat.h"

namespace amp {

// Process exit codes, a documented part of the command line.
enum class Exit : int {
  ok = 0,
  internal = 1,     // a bug of this program
  usage = 2,        // flags, configuration, paths given by the user
  model = 3,        // the model file is malformed or unsafe
  unsupported = 4,  // the model is valid, but this program cannot train it
  data = 5,         // training or validation data
  checkpoint = 6,   // no usable checkpoint
  storage = 7,      // writing failed
  numerical = 8,    // training diverged
  memory = 9,
  distributed = 10,
  locked = 11,   // another process holds the output directory
  gate = 12,     // a quality gate (--require) was missed
  stopped = 75,  // stopped on request, a durable checkpoint exists
};

class Error : public std::exception {
 public:
  Error(Exit exit, std::string id, std::string fact, std::string hint = {});

  // Adds a place where the error occurred; the innermost place is added first: "in node '/encoder/MatMul'".
  Error& at(std::string where);

  Exit exit() const { return exit_; }
  const std::string& id() const { return id_; }  // for example "E_DATA_COLUMN"
  const std::string& fact() const { return fact_; }
  const std::string& hint() const { return hint_; }
  const std::vector<std::string>& where() const { return where_; }
  const char* what() const noexcept override { return text_.c_str(); }  // returns fact, places and hint, one per line

 private:
  void render();
  Exit exit_;
  std::string id_, fact_, hint_, text_;
  std::vector<std::string> where_;
};

[[noreturn]] void fail(Exit exit, std::string id, std::string fact, std::string hint = {});

// Throws an Error with Exit::internal, for conditions that only a bug of this program can violate.
[[noreturn]] void bug(std::string fact);
inline void check(bool ok, std::string_view fact) {
  if (!ok) bug(std::string(fact));
}

}  // namespace amp
