// Folders, durability and the lock of an output folder. Whole files are in base/file.h.
//
// Every failure to write is Exit::storage, E_WRITE, with the path and the system's reason. If space is short, the error
// also has the bytes needed and free. fsync is not retried after a failure, because the kernel may have marked the
// pages clean.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace amp {

// Throws an Error with Exit::storage. what: "cannot create". code: errno. needed: number of bytes to write, or -1.
[[noreturn]] void storage_error(const std::string& what, const std::string& path, int code, int64_t needed = -1);

bool is_dir(const std::string& path);
bool path_exists(const std::string& path);  // true for any kind of file, also for a dangling link
void ensure_dir(const std::string& path);   // also creates missing parents; durable
// Returns the sorted names without . and ..; empty if the folder is missing.
std::vector<std::string> list_dir(const std::string& path);
// Returns the paths that match a pattern with * ? [ ] (glob(3)), sorted by bytes, independent of the locale.
// Returns nothing if the text has none of these characters.
std::vector<std::string> paths_matching(const std::string& pattern);
// Removes a file, a folder with its contents, or a link (but not its target). Durable. A missing path is no error.
void remove_tree(const std::string& path);
// Makes new, renamed and removed entries of the folder durable. Does nothing if this user may not read the folder.
void sync_dir(const std::string& path);
int64_t free_bytes(const std::string& path);  // available to this user; -1 if unknown

// Renames a file or folder durably. A file `to` is replaced. A folder that cannot be renamed (EXDEV: in a lower layer
// of overlayfs, or on another file system) is copied to "<to>.tmp-<pid>"; the copy is renamed, and `from` removed.
void move_path(const std::string& from, const std::string& to);

// Renames folder `from` to `to` durably; both must have the same parent. If `to` exists, the two are exchanged: the old
// folder is then named `from`. The exchange is atomic if the file system supports it. If it does not, `to` may be
// absent or incomplete after a crash, while `from` is complete. An old folder that cannot be renamed is removed.
void replace_dir(const std::string& from, const std::string& to);

// Writes, syncs, renames and removes a file of that many bytes in `dir`. So a full disk, a read-only folder or a file
// system without rename is found before any work is done.
void probe_storage(const std::string& dir, int64_t bytes);

// Creates a file and writes to it. The path must not exist yet.
class NewFile {
 public:
  // needed: expected number of bytes, for error messages; -1: unknown. shown: the name of the file in error messages.
  explicit NewFile(const std::string& path, int64_t needed = -1, const std::string& shown = {});
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();  // closes, but does not remove the file
  void write(const void* bytes, int64_t size);
  void finish();  // syncs and closes the file
  int64_t size() const { return size_; }

 private:
  std::string shown_;
  int64_t needed_, size_ = 0;
  int fd_ = -1;
};

// Exclusive use of a folder by one process: flock on "<dir>/.lock", which the system releases when the holder ends
// for any reason. The lock file contains the holder's name. Code that clears the folder must keep the lock file.
class DirLock {
 public:
  // The folder must exist. Fails with E_LOCKED (exit code 11), naming pid, host and start time, if another process
  // holds it.
  explicit DirLock(const std::string& dir);
  DirLock(const DirLock&) = delete;
  DirLock& operator=(const DirLock&) = delete;
  ~DirLock();
  // Fails with E_WRITE if the folder is no longer the locked one: it was removed, renamed or replaced.
  void require_present() const;

 private:
  std::string dir_;
  int fd_ = -1;
};

}  // namespace amp
