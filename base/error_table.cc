#include "base/error_table.h"

#include <algorithm>

#include "base/error.h"

namespace amp {

namespace {

std::string* field(ErrorEntry& e, std::string_view key) {
  if (key == "exit") return &e.exit;
  if (key == "means") return &e.meaning;
  if (key == "do") return &e.remedy;
  if (key == "example") return &e.example;
  return key == "by" ? &e.raised_by : nullptr;
}

// Parses the text that base/errors.txt describes. tests/errors checks the file, so a fault that is found here is a bug.
std::vector<ErrorEntry> parse_errors(std::string_view text) {
  std::vector<ErrorEntry> out;
  std::string* last = nullptr;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(": ");
    if (line.starts_with("  ")) {
      check(last, "errors.txt: a continuation without a line before it");
      *last += line.substr(1);
    } else if (colon == std::string_view::npos) {
      out.emplace_back().id = line;
      last = nullptr;
    } else {
      last = out.empty() ? nullptr : field(out.back(), line.substr(0, colon));
      check(last, "errors.txt: an unknown key");
      *last = line.substr(colon + 2);
    }
  }
  std::sort(out.begin(), out.end(), [](const ErrorEntry& a, const ErrorEntry& b) { return a.id < b.id; });
  return out;
}

}  // namespace

const std::vector<ErrorEntry>& error_table() {
  static const std::vector<ErrorEntry> table = parse_errors(embedded_errors()[0].text);
  return table;
}

const ErrorEntry* find_error(std::string_view id) {
  const std::vector<ErrorEntry>& all = error_table();
  const auto it = std::lower_bound(all.begin(), all.end(), id, [](const ErrorEntry& e, auto x) { return e.id < x; });
  return it != all.end() && it->id == id ? &*it : nullptr;
}

}  // namespace amp
