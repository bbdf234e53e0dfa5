// MemoryFolder: files stay open, and put() overwrites and truncates them. Errors end the process, because the input
// cannot cause them.
#include "fuzz/memory_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

namespace amp::fuzz {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot(const char* what, const std::string& path) {
  std::cerr << "fuzz: cannot " << what << " '" << path << "': " << std::strerror(errno) << '\n';
  std::_Exit(2);  // not abort(), because this is not a finding
}

std::string parent() {
  if (const char* folder = std::getenv("TMPDIR")) return folder;
  return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

}  // namespace

MemoryFolder::MemoryFolder() : path_(parent() + "/onnx-amp-fuzz-XXXXXX") {
  if (!::mkdtemp(path_.data())) cannot("create", path_);
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  clear();
  fs::remove(path_, ignored);
}

void MemoryFolder::clear() {
  for (const auto& [name, fd] : open_) ::close(fd);
  open_.clear();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) fs::remove_all(entry.path(), ignored);
}

std::string MemoryFolder::put(const std::string& name, std::string_view bytes) {
  std::string path = path_ + "/" + name;
  auto found = open_.find(name);
  if (found == open_.end()) {
    if (name.find('/') != std::string::npos) fs::create_directories(fs::path(path).parent_path());
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) cannot("create", path);
    found = open_.emplace(name, fd).first;
  }
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::pwrite(found->second, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (n < 0) cannot("write", path);
    at += static_cast<size_t>(n);
  }
  if (::ftruncate(found->second, static_cast<off_t>(bytes.size())) != 0) cannot("truncate", path);
  return path;
}

MemoryFolder& memory_folder() {
  static MemoryFolder folder;
  return folder;
}

}  // namespace amp::fuzz
