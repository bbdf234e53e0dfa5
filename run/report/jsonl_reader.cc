#include "run/report/jsonl_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/io.h"
#include "base/json_nesting.h"

namespace amp {

void JsonlReader::read(const std::function<void()>& begin, const std::function<void(const nlohmann::json&)>& line) {
  const int fd = open_file(path_.c_str(), O_RDONLY | O_NONBLOCK);  // a pipe without a writer must not block
  if (fd < 0) return;                                              // the file does not exist yet
  struct stat s {};
  if (::fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
    close_file(fd);
    return;
  }
  if (s.st_ino != inode_ || s.st_size < offset_) {
    inode_ = s.st_ino;
    offset_ = 0;
  }
  if (offset_ == 0) begin();
  std::string rest;
  std::array<char, 65536> block;
  while (true) {
    const int64_t n = read_fully_at(fd, block.data(), block.size(), offset_ + static_cast<int64_t>(rest.size()));
    if (n <= 0) break;
    const size_t searched = rest.size();  // `rest` has no newline so far
    rest.append(block.data(), static_cast<size_t>(n));
    size_t from = 0;
    for (size_t end; (end = rest.find('\n', std::max(from, searched))) != std::string::npos; from = end + 1) {
      const nlohmann::json j = parse_json(std::string_view(rest).substr(from, end - from));
      if (j.is_object()) line(j);
    }
    rest.erase(0, from);
    offset_ += static_cast<int64_t>(from);
  }
  close_file(fd);
}

void Thinned::add(nlohmann::json line, bool keep) {
  const bool kept = keep && kept_ < most_;
  kept_ += kept;
  if (kept || seen_ % stride_ == 0) lines_.push_back({seen_, kept, line});
  last_ = std::move(line);
  ++seen_;
  if (lines_.size() - kept_ > most_) thin();
}

void Thinned::thin() {
  stride_ *= 2;
  std::erase_if(lines_, [&](const Line& l) { return !l.kept && l.number % stride_ != 0; });
}

std::vector<nlohmann::json> Thinned::lines() const {
  std::vector<nlohmann::json> out;
  for (const Line& l : lines_) out.push_back(l.json);
  if (seen_ > 0 && lines_.back().number != seen_ - 1) out.push_back(last_);
  return out;
}

}  // namespace amp
