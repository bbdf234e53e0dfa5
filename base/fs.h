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

// what: "cannot create". code: errno. needed: number of bytes to write, or -1.
[[noreturn]] void storage_error(const std::string& what, const std::string& path, int code, int64_t needed = -1);

bool is_dir(const std::string& path);
bool path_exists(const std::string& path);  // true for any kind of file, also for a dangling link
void ensure_dir(const std::string& path);   // including parents; durable
// sorted names without . and ..; empty if the folder is missing
std::vector<std::string> list_dir(const std::string& path);
// Returns the paths that match a pattern with * ? [ ] (glob(3)), sorted by bytes, independent of the locale;
// none for a text without these characters.
std::vector<std::string> paths_matching(const std::string& pattern);
// Links are removed, not followed; a missing path is not an error. Durable.
void remove_tree(const std::string& path);
// Makes new, renamed and removed entries of the folder durable. A folder that this user may not list is left out.
void sync_dir(const std::string& path);
int64_t free_bytes(const std::string& path);  // available to this user; -1 if unknown

// Renames a file or folder durably; replaces a file `to`. A folder that cannot be renamed (EXDEV: one of a lower layer
// of overlayfs, or on another file system) is copied to "<to>.tmp-<pid>", renamed to `to`, and then removed.
void move_path(const std::string& from, const std::string& to);

// Renames folder `from` to `to` durably; both must have the same parent. If `to` exists, the two are exchanged: the old
// folder is then named `from`. This is atomic where the file system can exchange names. Elsewhere `from` is complete
// while `to` is absent or incomplete, and an old folder that cannot be renamed is removed.
void replace_dir(const std::string& from, const std::string& to);

// Writes, syncs, renames and removes a file of that many bytes in `dir`. This finds a full disk, a read-only folder or
// a file system without rename before work depends on it.
void probe_storage(const std::string& dir, int64_t bytes);

// A new file; the path must not exist.
class NewFile {
 public:
  // needed: expected number of bytes, for error messages; -1: unknown. shown: the name used in error messages.
  explicit NewFile(const std::string& path, int64_t needed = -1, const std::string& shown = {});
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();  // closes, but does not remove the file
  void write(const void* bytes, int64_t size);
  void finish();  // fsync and close
  int64_t size() const { return size_; }

 private:
  std::string shown_;
  int64_t needed_, size_ = 0;
  int fd_ = -1;
};

// Exclusive use of a folder by one process: flock on "<dir>/.lock", which the system releases when the holder ends for
// any reason. The file contains the holder's name. Code that clears the folder must keep it.
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
