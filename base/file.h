// Whole files: read into memory, written aside and renamed into place. Nothing is mapped, so a file truncated by
// another process is an error and never a SIGBUS.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/fs.h"
#include "base/temporary.h"

namespace amp {

// 64-byte aligned bytes of a file.
struct FileBytes {
  std::shared_ptr<uint8_t> bytes;
  int64_t size = 0;
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.get()), static_cast<size_t>(size)}; }
};

// E_FILE_MISSING, E_FILE_READ with `exit`; a folder and a file that shrinks while it is read are errors.
FileBytes read_file(const std::string& path, Exit exit = Exit::usage);
// Its first bytes, at most so many.
FileBytes read_file_head(const std::string& path, int64_t at_most, Exit exit = Exit::usage);

// Writes to "<path>.tmp-<pid>", made durable and renamed over path by commit(); removed if that never happens, by a
// signal too. Errors: storage_error() with the path.
class FileWriter {
 public:
  // needed: the bytes that will come, for the message when they do not fit; -1: unknown.
  explicit FileWriter(std::string path, int64_t needed = -1);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();
  void write(const void* bytes, int64_t size) { file_.write(bytes, size); }
  void write(std::string_view text) { write(text.data(), static_cast<int64_t>(text.size())); }
  void commit();  // fsync, rename, fsync of the folder
  const std::string& temporary() const { return temporary_; }

 private:
  std::string path_, temporary_;
  TemporaryPath registered_;
  NewFile file_;
  bool committed_ = false;
};

}  // namespace amp
