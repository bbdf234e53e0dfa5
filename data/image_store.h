// Pixels by path: of a file, or of a place in one that holds many (data/images/packed.h), which stays in memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/images/packed.h"

namespace amp {

class ImageStore {
 public:
  explicit ImageStore(const std::vector<std::string>& paths);  // that will be read
  // RGB for 3 channels, grey for 1. Any number of threads may ask. Errors name the file.
  Image read(const std::string& path, int64_t channels) const;
  ImageSize size(const std::string& path) const;  // that read gives, found without decoding
  // The bytes of an image, encoded or not, by which equal ones are known, and the image as it is.
  std::pair<std::string, Image> read_with_bytes(const std::string& path) const;

 private:
  std::map<std::string, PackedImages> packed_;
};

}  // namespace amp
