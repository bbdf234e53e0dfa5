// CRC-32C with the instruction of the CPU (base/isa), or by table on CPUs without it. Both must give the same value,
// because a file may be written on one machine and checked on another.
#include "base/checksum.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/io.h"
#include "base/isa/isa.h"
#include "base/text.h"

namespace amp {

namespace {
constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t x = i;
    for (int bit = 0; bit < 8; ++bit) x = (x >> 1) ^ (x & 1 ? 0x82f63b78u : 0);
    table[i] = x;
  }
  return table;
}();

uint32_t by_table(uint32_t state, const uint8_t* p, int64_t size) {
  for (int64_t i = 0; i < size; ++i) state = (state >> 8) ^ kTable[(state ^ p[i]) & 0xff];
  return state;
}
}  // namespace

void Crc32c::update(const void* bytes, int64_t size) {
  const auto* p = static_cast<const uint8_t*>(bytes);
  state_ = isa::has_crc32c() ? isa::crc32c(state_, p, size) : by_table(state_, p, size);
}

std::string Crc32c::hex() const {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", value());
  return text;
}

std::string crc32c(const void* bytes, int64_t size) {
  Crc32c c;
  c.update(bytes, size);
  return c.hex();
}

FileSum sum_of_file(const std::string& path) {
  FileSum out;
  const int fd = open_file(path.c_str(), O_RDONLY);
  if (fd < 0) {
    out.error = errno;
    return out;
  }
  std::vector<char> piece(size_t{1} << 20);
  Crc32c crc;
  int64_t n = 0;
  while ((n = read_fully(fd, piece.data(), static_cast<int64_t>(piece.size()))) > 0) {
    crc.update(piece.data(), n);
    out.size += n;
  }
  if (n < 0) out.error = errno;
  close_file(fd);
  out.crc32c = crc.hex();
  return out;
}

std::string fingerprint(const std::string& path) {
  std::error_code ignored;  // sum_of_file() reports the error
  const FileSum sum = std::filesystem::is_directory(path, ignored) ? sum_of_folder(path) : sum_of_file(path);
  if (sum.error)
    fail(Exit::data, "E_DATA_FILE", cat("cannot read '", printable(path), "': ", std::strerror(sum.error)),
         "its checksum is recorded, by which a resumed run recognizes the file");
  return cat(sum.size, " bytes of CRC-32C ", sum.crc32c);
}

FileSum sum_of_folder(const std::string& path) {
  namespace fs = std::filesystem;
  std::vector<std::string> lines;
  FileSum out;
  std::error_code code;
  const auto options = fs::directory_options::follow_directory_symlink | fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(path, options, code), end; !code && at != end; at.increment(code)) {
    if (at.depth() > 16) at.disable_recursion_pending();  // links may form cycles
    std::error_code no_file;
    const auto size = static_cast<int64_t>(fs::file_size(at->path(), no_file));
    if (no_file) continue;
    lines.push_back(at->path().lexically_relative(path).string() + '\n' + std::to_string(size) + '\n');
    out.size += size;
  }
  out.error = code.value();
  std::sort(lines.begin(), lines.end());
  Crc32c crc;
  for (const std::string& line : lines) crc.update(line.data(), static_cast<int64_t>(line.size()));
  out.crc32c = crc.hex();
  return out;
}

}  // namespace amp
