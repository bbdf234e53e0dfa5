// Image files of the golden data, and image files that a test writes.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support.h"

namespace amp::test {

inline std::string golden_image(const std::string& name) { return test_data("data/images/" + name); }

// Writes a file and creates its parent folders.
inline void write_in_folder(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace amp::test
