#include "data/skipped_rows.h"

namespace amp {

void SkippedRows::add(const Error& error, const std::string& file, int64_t line) {
  if (error.exit() != Exit::data || static_cast<int64_t>(rows_.size()) >= most_) throw error;
  rows_.push_back({file, line, error.fact()});
}

}  // namespace amp
