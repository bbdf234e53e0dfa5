// Incremental reader of a JSONL file that is being written: each call returns only new lines. A file that was replaced
// (by a resumed run) or truncated is read from its beginning again.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace amp {

class JsonlReader {
 public:
  explicit JsonlReader(std::string path) : path_(std::move(path)) {}

  // Calls line() for each new JSON object; begin() is called before a read from the beginning. Lines that are not JSON
  // objects are skipped. An incomplete last line is left for the next call.
  void read(const std::function<void()>& begin, const std::function<void(const nlohmann::json&)>& line);

 private:
  std::string path_;
  uint64_t inode_ = 0;
  int64_t offset_ = 0;
};

// Keeps about `most` of the added lines, evenly spaced: every n-th, n a power of two. Up to `most` lines added with
// keep=true are kept in addition.
class Thinned {
 public:
  explicit Thinned(size_t most) : most_(most) {}
  void clear() { *this = Thinned(most_); }
  void add(nlohmann::json line, bool keep = false);
  std::vector<nlohmann::json> lines() const;  // in order; includes the last line

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
