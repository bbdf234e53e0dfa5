// ImageStore: reads images by path. A path names an image file, or one image in a packed file that holds many
// (data/images/packed.h). Packed files stay in memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/images/packed.h"

namespace amp {

class ImageStore {
 public:
  explicit ImageStore(const std::vector<std::string>& paths);  // paths: all paths that will be read
  // Returns RGB for 3 channels, gray for 1. Safe to call from several threads. Errors name the file.
  Image read(const std::string& path, int64_t channels) const;
  ImageSize size(const std::string& path) const;  // returns the size of read()'s image without decoding it
  // Returns the bytes of an image as stored, to find duplicates, and the decoded image.
  std::pair<std::string, Image> read_with_bytes(const std::string& path) const;

 private:
  std::map<std::string, PackedImages> packed_;
};

}  // namespace amp
