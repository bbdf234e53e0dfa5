#include "data/skipped_rows.h"

#include "base/utf8.h"

namespace amp {

void SkippedRows::add(const Error& error, const std::string& file, int64_t line) {
  if (error.exit() != Exit::data || static_cast<int64_t>(rows_.size()) >= most_) throw error;
  rows_.push_back({file, line, error.fact()});
}

bool is_utf16(std::string_view bytes) { return bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff"); }

void require_utf8_text(std::string_view text, const std::string& where) {
  if (find_invalid_utf8(text) == std::string_view::npos && text.find('\0') == std::string_view::npos) return;
  fail(Exit::data, "E_DATA_UTF8", cat(where, ": not UTF-8, or a NUL byte"), "convert the file to UTF-8");
}

}  // namespace amp
