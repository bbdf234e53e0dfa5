// CRC-32C (Castagnoli; RFC 3720 appendix B.4): detects every burst of up to 32 wrong bits. It protects integrity, not
// authenticity. Implemented here because CPUs have an instruction for it and Debian has no library.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

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

// Size and checksum of a file, which is read in pieces. error: errno if the file cannot be read completely, else 0.
struct FileSum {
  int64_t size = 0;
  std::string crc32c;
  int error = 0;
};
FileSum sum_of_file(const std::string& path);
// Returns a checksum over the names and sizes of all files below a folder, and their total size. The contents of
// the files are not read.
FileSum sum_of_folder(const std::string& path);
// Returns "N bytes of CRC-32C X" for a file or, from names and sizes only, for a folder. Fails with E_DATA_FILE.
std::string fingerprint(const std::string& path);

}  // namespace amp
