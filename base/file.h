// Reads whole files into memory, and writes files to a temporary path that is renamed at the end. Files are not mapped,
// so a file that another process truncates causes an error, not a SIGBUS.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/fs.h"
#include "base/temporary.h"

namespace amp {

// The contents of a file, aligned to 64 bytes.
struct FileBytes {
  std::shared_ptr<uint8_t> bytes;
  int64_t size = 0;
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.get()), static_cast<size_t>(size)}; }
};

// Reads a regular file. Throws E_FILE_MISSING or E_FILE_READ (exit: usage), E_DATA_FILE (data), E_CKPT_FILE
// (checkpoint) or E_RUN_FILE (storage), also for a folder, a pipe, a device, and a file that shrinks while it is read.
FileBytes read_file(const std::string& path, Exit exit = Exit::usage);
// Reads at most the first `at_most` bytes.
FileBytes read_file_head(const std::string& path, int64_t at_most, Exit exit = Exit::usage);

// Writes to "<path>.tmp-<pid>". commit() makes the file durable and renames it to path. Without commit() the temporary
// file is removed, also if a signal ends the process. Errors: storage_error() with the path.
class FileWriter {
 public:
  // needed: the expected number of bytes; the error message states it if the disk has too little space. -1: unknown.
  explicit FileWriter(std::string path, int64_t needed = -1);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();
  void write(const void* bytes, int64_t size) { file_.write(bytes, size); }
  void write(std::string_view text) { write(text.data(), static_cast<int64_t>(text.size())); }
  void commit();  // syncs the file, renames it, syncs the folder
  const std::string& temporary() const { return temporary_; }

 private:
  std::string path_, temporary_;
  TemporaryPath registered_;
  NewFile file_;
  bool committed_ = false;
};

}  // namespace amp
