// POSIX file operations with error reports. replace_dir() uses renameat2(RENAME_EXCHANGE) where it exists.
// DirLock relies on flock, which the kernel releases when the holder ends.
#include "base/fs.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/io.h"
#include "base/sysinfo.h"
#include "base/temporary.h"
#include "base/text.h"

namespace amp {

namespace {
std::string parent_of(const std::string& path) {
  const std::filesystem::path p = std::filesystem::path(path).lexically_normal();
  const std::filesystem::path parent = p.has_filename() ? p.parent_path() : p.parent_path().parent_path();
  return parent.empty() ? "." : parent.string();
}
}  // namespace

void storage_error(const std::string& what, const std::string& path, int code, int64_t needed) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  std::string fact = cat(what, " '", printable(path), "': ", std::strerror(code));
  if (needed >= 0) fact += cat(", ", with_thousands(needed), " bytes needed");
  if (full) {
    const int64_t left = free_bytes(parent_of(path));
    if (left >= 0) fact += cat(", ", with_thousands(left), " bytes free");
  }
  std::string hint = "see the system's reason above; files that were complete before are unchanged";
  if (full) hint = "free some space (a quota or file size limit counts too) or write elsewhere (`output_dir`, `out`)";
  if (code == EACCES || code == EPERM || code == EROFS) hint = "write where this user may (`output_dir`, `out`)";
  fail(Exit::storage, "E_WRITE", fact, hint);
}

bool is_dir(const std::string& path) {
  struct stat s;
  return ::stat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode);
}

bool path_exists(const std::string& path) {
  struct stat s;
  return ::lstat(path.c_str(), &s) == 0;
}

void ensure_dir(const std::string& path) {
  if (is_dir(path)) return;
  const std::string parent = parent_of(path);
  if (parent != path && parent != "." && !is_dir(parent)) ensure_dir(parent);
  if (::mkdir(path.c_str(), 0777) == 0) {
    try {
      return sync_dir(parent_of(path));
    } catch (const Error&) {  // the caller removes the folder only if this function returns
      ::rmdir(path.c_str());
      throw;
    }
  }
  const int code = errno;
  if (code == EEXIST && is_dir(path)) return;  // another process created it first
  storage_error("cannot create folder", path, code == EEXIST ? ENOTDIR : code);
}

std::vector<std::string> list_dir(const std::string& path) {
  std::error_code e;
  std::vector<std::string> names;
  std::filesystem::directory_iterator it;
  do {
    it = std::filesystem::directory_iterator(path, e);
  } while (e == std::errc::interrupted);
  for (; !e && it != std::filesystem::directory_iterator(); it.increment(e)) names.push_back(it->path().filename());
  if (e && e.value() != ENOENT) storage_error("cannot list folder", path, e.value());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> paths_matching(const std::string& pattern) {
  if (pattern.find_first_of("*?[") == std::string::npos) return {};
  glob_t found{};
  const int code = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> out;
  for (size_t i = 0; code == 0 && i < found.gl_pathc; ++i) out.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  std::sort(out.begin(), out.end());
  return out;
}

void remove_tree(const std::string& path) {
  std::error_code e;
  std::uintmax_t removed = 0;
  do {
    removed = std::max(removed, std::filesystem::remove_all(path, e));
  } while (e == std::errc::interrupted);
  if (e) storage_error("cannot remove", path, e.value());
  if (removed > 0) sync_dir(parent_of(path));
}

void sync_dir(const std::string& path) {
  const int fd = open_file(path.c_str(), O_RDONLY | O_DIRECTORY);
  if (fd < 0 && errno == EACCES) return;
  if (fd < 0) storage_error("cannot open folder", path, errno);
  const int code = sync_file(fd) == 0 ? 0 : errno;
  close_file(fd);
  // EINVAL: this file system cannot fsync folders.
  if (code != 0 && code != EINVAL) storage_error("cannot make folder durable", path, code);
}

int64_t free_bytes(const std::string& path) {
  struct statvfs s;
  if (::statvfs(path.c_str(), &s) != 0) return -1;
  return static_cast<int64_t>(s.f_bavail) * static_cast<int64_t>(s.f_frsize);
}

namespace {
void copy_file(const std::string& from, const std::string& to) {
  const int in = open_file(from.c_str(), O_RDONLY | O_NOFOLLOW);
  if (in < 0) storage_error("cannot copy", from, errno);
  NewFile out(to);
  std::vector<char> piece(size_t{1} << 20);
  int64_t n = 0;
  while ((n = read_fully(in, piece.data(), static_cast<int64_t>(piece.size()))) > 0) out.write(piece.data(), n);
  const int code = n < 0 ? errno : 0;
  close_file(in);
  if (code != 0) storage_error("cannot copy", from, code);
  out.finish();
}

void copy_tree(const std::string& from, const std::string& to) {
  if (!is_dir(from)) return copy_file(from, to);
  ensure_dir(to);
  for (const std::string& name : list_dir(from)) copy_tree(cat(from, "/", name), cat(to, "/", name));
  sync_dir(to);
}
}  // namespace

void move_path(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return sync_dir(parent_of(to));
  const int code = errno;
  if (code != EXDEV || !is_dir(from)) storage_error("cannot put into place", to, code);
  const std::string copy = cat(to, ".tmp-", ::getpid());
  remove_tree(copy);
  copy_tree(from, copy);
  move_path(copy, to);
  remove_tree(from);
}

void replace_dir(const std::string& from, const std::string& to) {
  const auto renamed = [](const std::string& a, const std::string& b) {
    return ::rename(a.c_str(), b.c_str()) == 0 ? 0 : errno;
  };
  int code = renamed(from, to);
  if (code == ENOTEMPTY || code == EEXIST) {
    code = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0 ? 0 : errno;
    // The file system cannot exchange, or `to` is in a lower overlay layer.
    if (code == EINVAL || code == ENOSYS || code == EXDEV) {
      const std::string aside = from + "-old";
      code = renamed(to, aside);
      if (code == EXDEV) {
        remove_tree(to);
        code = renamed(from, to);
      } else if (code == 0) {
        code = renamed(from, to);
        renamed(aside, code == 0 ? from : to);
      }
    }
  }
  if (code != 0) storage_error("cannot rename into place", to, code);
  sync_dir(parent_of(to));
}

void probe_storage(const std::string& dir, int64_t bytes) {
  const std::string probe = cat(dir, "/.probe-", ::getpid()), renamed = probe + "-renamed";
  ::unlink(probe.c_str());
  const TemporaryPath first(probe), second(renamed);
  const int fd = open_file(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
  if (fd < 0) storage_error("cannot write in folder", dir, errno, bytes);
  int code = bytes > 0 && retried([&] { return ::fallocate(fd, 0, 0, bytes); }) != 0 ? errno : 0;
  if (code == EOPNOTSUPP || code == ENOSYS) {
    const int64_t left = free_bytes(dir);
    code = left >= 0 && left < bytes ? ENOSPC : 0;
  }
  if (code == 0 && (write_fully(fd, "probe", 5) != 5 || sync_file(fd) != 0)) code = errno;
  if (close_file(fd) != 0 && code == 0) code = errno;
  if (code == 0 && ::rename(probe.c_str(), renamed.c_str()) != 0) code = errno;
  ::unlink(probe.c_str());
  ::unlink(renamed.c_str());
  if (code != 0) storage_error("no room for a checkpoint in folder", dir, code, bytes);
}

NewFile::NewFile(const std::string& path, int64_t needed, const std::string& shown)
    : shown_(shown.empty() ? path : shown), needed_(needed) {
  fd_ = open_file(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
  if (fd_ < 0) storage_error("cannot create", shown_, errno, needed_);
}

NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
}

void NewFile::write(const void* bytes, int64_t size) {
  const int64_t n = write_fully(fd_, bytes, size);
  if (n < size) storage_error("cannot write", shown_, errno, needed_);
  size_ += n;
}

void NewFile::finish() {
  if (sync_file(fd_) != 0) storage_error("cannot make durable", shown_, errno, needed_);
  const int fd = std::exchange(fd_, -1);
  if (close_file(fd) != 0) storage_error("cannot close", shown_, errno, needed_);
}

namespace {
// Returns the name that the holder of the lock has written to the file. The holder writes it after locking, so this may
// wait briefly.
std::string holder(int fd) {
  char text[512] = {};
  for (int tries = 0; tries < 20; ++tries) {
    if (read_fully_at(fd, text, sizeof text - 1, 0) > 0) break;
    ::usleep(5000);
  }
  std::string name = text;
  if (!name.empty() && name.back() == '\n') name.pop_back();
  return name.empty() ? "another process" : printable(name);
}
}  // namespace

DirLock::DirLock(const std::string& dir) : dir_(dir) {
  const std::string path = dir + "/.lock";
  const auto give_up = [&](const char* what, int code) {
    ::close(std::exchange(fd_, -1));
    storage_error(what, path, code);
  };
  for (int tries = 0;; ++tries) {
    fd_ = open_file(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    if (fd_ < 0) storage_error("cannot create", path, errno);
    if (retried([&] { return ::flock(fd_, LOCK_EX | LOCK_NB); }) != 0) {
      const int code = errno;
      if (code != EWOULDBLOCK) give_up("cannot lock", code);
      const std::string name = holder(fd_);
      ::close(std::exchange(fd_, -1));
      fail(Exit::locked, "E_LOCKED", cat("'", printable(dir), "' is in use by ", name),
           "wait for it or stop it, or choose another `output_dir`; the lock ends with its holder");
    }
    // If the file was removed between open() and flock(), the lock has no effect, so the loop tries again.
    struct stat mine, there;
    if (::fstat(fd_, &mine) != 0) give_up("cannot examine", errno);
    const int code = ::stat(path.c_str(), &there) == 0 ? 0 : errno;
    if (code == 0 && mine.st_ino == there.st_ino) break;
    if (code != 0 && code != ENOENT) give_up("cannot examine", code);
    if (tries == 100) give_up("cannot keep", ENOENT);
    ::close(std::exchange(fd_, -1));
  }
  const std::string me = cat("pid ", ::getpid(), " on host ", host_name(), " since ", utc_timestamp(), "\n");
  const auto size = static_cast<int64_t>(me.size());
  if (retried([&] { return ::ftruncate(fd_, 0); }) != 0 || write_fully(fd_, me.data(), size) != size)
    give_up("cannot write", errno);
}

void DirLock::require_present() const {
  struct stat mine, there;
  if (::fstat(fd_, &mine) == 0 && ::stat((dir_ + "/.lock").c_str(), &there) == 0 && mine.st_ino == there.st_ino &&
      mine.st_dev == there.st_dev)
    return;
  fail(Exit::storage, "E_WRITE",
       cat("the output folder '", printable(dir_), "' was removed, renamed or replaced while a run wrote to it"),
       "`resume` auto continues from a remaining checkpoint; let no program that cleans up temporary files change it");
}

DirLock::~DirLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace amp
