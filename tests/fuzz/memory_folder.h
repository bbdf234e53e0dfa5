// A folder in memory (a tmpfs), for readers that need paths: those that choose a file by its name, or read several
// files. A file that is replaced keeps its pages, so an execution costs a few system calls and no disk.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace amp::fuzz {

class MemoryFolder {
 public:
  // Creates a folder of a new name in TMPDIR if that is set, else in /dev/shm or, where this cannot be written, /tmp.
  MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  ~MemoryFolder();  // removes the folder

  const std::string& path() const { return path_; }
  // Writes a file and returns its path. name: may contain folders, which are created.
  std::string put(const std::string& name, std::string_view bytes);
  void clear();  // removes the contents of the folder

 private:
  std::string path_;
  std::map<std::string, int> open_;  // descriptors of the files that were put
};

// Returns a folder that is shared by all executions of a target.
MemoryFolder& memory_folder();

}  // namespace amp::fuzz
