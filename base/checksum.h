// CRC-32C (Castagnoli; RFC 3720 appendix B.4): finds every burst of up to 32 wrong bits. Integrity, not authenticity.
// Processors have an instruction for it, and Debian has no library.
#pragma once

#include <cstdint>
#include <string>

namespace amp {

class Crc32c {
 public:
  void update(const void* bytes, int64_t size);
  uint32_t value() const { return ~state_; }
  std::string hex() const;  // eight lower-case digits

 private:
  uint32_t state_ = ~0u;
};

std::string crc32c(const void* bytes, int64_t size);

// A whole file's, read piece by piece. error: errno, when it cannot be read to its end.
struct FileSum {
  int64_t size = 0;
  std::string crc32c;
  int error = 0;
};
FileSum sum_of_file(const std::string& path);
// Of the names and sizes of all files in a folder and below: size is that of all together. Contents are not read.
FileSum sum_of_folder(const std::string& path);

}  // namespace amp
