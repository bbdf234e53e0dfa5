// A file of JSON lines that another part of the program is writing: what has come since the last look. A file that was
// replaced (a resumed run's) or cut is read from its beginning again.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace amp {

class GrowingLines {
 public:
  explicit GrowingLines(std::string path) : path_(std::move(path)) {}

  // begin: before what follows is read from the beginning. Lines that are no JSON object are left out, a last one that
  // is not whole yet waits for the next look.
  void read(const std::function<void()>& begin, const std::function<void(const nlohmann::json&)>& line);

 private:
  std::string path_;
  uint64_t inode_ = 0;
  int64_t offset_ = 0;
};

// Of lines that come one by one at most about `most`, evenly spaced: every n-th, n a power of two. Those that must be
// kept are, `most` of them at least.
class Thinned {
 public:
  explicit Thinned(size_t most) : most_(most) {}
  void clear() { *this = Thinned(most_); }
  void add(nlohmann::json line, bool keep = false);
  std::vector<nlohmann::json> lines() const;  // in order, the last one always among them

 private:
  struct Line {
    int64_t number;
    bool kept;
    nlohmann::json json;
  };
  void thin();
  size_t most_, kept_ = 0;
  int64_t seen_ = 0, stride_ = 1;
  std::vector<Line> lines_;
  nlohmann::json last_;
};

}  // namespace amp
