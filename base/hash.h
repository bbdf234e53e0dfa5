// SHA-256 (FIPS 180-4), for the fingerprints in run.json and for checksums of checkpoints.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace amp {

class Sha256 {
 public:
  void update(const void* data, size_t bytes);
  std::string hex();  // the digest in lower case; ends the computation

 private:
  void block(const uint8_t* p);
  std::array<uint32_t, 8> h_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> tail_ = {};
  uint64_t bytes_ = 0;
};

std::string sha256(const void* data, size_t bytes);
std::string file_sha256(const std::string& path);  // unreadable: Exit::usage E_FILE_OPEN

}  // namespace amp
