// Folders, durability and the lock of an output folder. Whole files are in base/file.h.
//
// Every failure to write is Exit::storage, E_WRITE, with the path, the system's reason and, where space is the reason,
// the bytes needed and free. fsync is never tried twice on a file: after a failure its pages may be marked clean.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace amp {

// what: "cannot create". code: errno. needed: bytes that were to be written, or -1.
[[noreturn]] void storage_error(const std::string& what, const std::string& path, int code, int64_t needed = -1);

bool is_dir(const std::string& path);
bool path_exists(const std::string& path);                   // of any kind, dangling links included
void ensure_dir(const std::string& path);                    // with its parents
std::vector<std::string> list_dir(const std::string& path);  // sorted names without . and ..; none when it is missing
void remove_tree(const std::string& path);                   // links are removed, not followed; missing is fine
void sync_dir(const std::string& path);                      // makes renames inside it durable
int64_t free_bytes(const std::string& path);                 // available to this user; -1 when unknown

void move_path(const std::string& from, const std::string& to);  // rename(2), made durable; a file `to` is replaced

// Gives the folder `from` the name `to` in one step, both in the same parent, and makes that durable. A folder already
// named `to` is exchanged: afterwards it bears the name `from`.
void rename_dir(const std::string& from, const std::string& to);

// Writes, syncs and renames a file of that many bytes in `dir` and removes it: a full disk, a read-only folder or a
// file system without rename is found before the work that would be lost.
void probe_storage(const std::string& dir, int64_t bytes);

// A file that must not exist yet.
class NewFile {
 public:
  // needed: the bytes that will come, for the message when they do not fit; -1: unknown. shown: the name in errors.
  explicit NewFile(const std::string& path, int64_t needed = -1, const std::string& shown = {});
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();  // closes; the file stays
  void write(const void* bytes, int64_t size);
  void finish();  // fsync and close
  int64_t size() const { return size_; }

 private:
  std::string shown_;
  int64_t needed_, size_ = 0;
  int fd_ = -1;
};

// Exclusive use of a folder by one process: flock on "<dir>/.lock", which the system frees when the holder dies,
// however it dies. The file tells who holds it; it is never removed (whoever clears the folder leaves it there).
class DirLock {
 public:
  // The folder must exist. Held by another process: exit 11 E_LOCKED naming its pid, host and start.
  explicit DirLock(const std::string& dir);
  DirLock(const DirLock&) = delete;
  DirLock& operator=(const DirLock&) = delete;
  ~DirLock();

 private:
  int fd_ = -1;
};

}  // namespace amp
