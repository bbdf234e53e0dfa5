// Rows that cannot be read and may be left out (`skip_bad_rows`), of files that are read as one data set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace amp {

struct SkippedRow {
  std::string file;
  int64_t line = 0;    // line number from 1; 0: the row stands for a whole file
  std::string reason;  // text of the error
};

class SkippedRows {
 public:
  explicit SkippedRows(int64_t most = 0) : most_(most) {}
  int64_t most() const { return most_; }
  const std::vector<SkippedRow>& rows() const { return rows_; }
  // Leaves out a row because of its error. Throws the error instead if it has another exit code than Exit::data, or if
  // as many rows were left out as may be.
  void add(const Error& error, const std::string& file, int64_t line);

 private:
  int64_t most_ = 0;
  std::vector<SkippedRow> rows_;
};

}  // namespace amp
