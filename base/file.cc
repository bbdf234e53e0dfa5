// Reading and atomic writing of whole files: write to a temporary path, fsync, rename, fsync of the folder. A file that
// shrinks while being read is an error.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "base/io.h"
#include "base/near_path.h"
#include "base/text.h"

namespace amp {

namespace {

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close_file(fd);
  }
};

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

// Returns the error id. The ids differ by exit code, because an id has one exit code only.
std::string read_id(Exit exit, const char* of_usage) {
  if (exit == Exit::data) return "E_DATA_FILE";
  if (exit == Exit::checkpoint) return "E_CKPT_FILE";
  return exit == Exit::storage ? "E_RUN_FILE" : of_usage;
}

FileBytes read_up_to(const std::string& path, int64_t at_most, Exit exit) {
  const std::string shown = printable(path), missing = read_id(exit, "E_FILE_MISSING");
  const std::string unreadable = read_id(exit, "E_FILE_READ");
  Descriptor d;
  d.fd = open_file(path.c_str(), O_RDONLY | O_NONBLOCK);  // opening a pipe without a writer must not block
  if (d.fd < 0) fail(exit, missing, cat("cannot open '", shown, "': ", std::strerror(errno)), near_path_hint(path));
  struct stat s;
  if (::fstat(d.fd, &s) != 0) fail(exit, unreadable, cat("cannot examine '", shown, "': ", std::strerror(errno)));
  if (!S_ISREG(s.st_mode))
    fail(exit, unreadable, cat("'", shown, "' is ", kind_of(s.st_mode), ", a file is needed"),
         S_ISFIFO(s.st_mode) ? "write it to a file first: files are read more than once" : "");
  const int64_t size = std::min(at_most, static_cast<int64_t>(s.st_size));
  void* p = std::aligned_alloc(64, static_cast<size_t>((size + 127) / 64 * 64));
  if (!p) throw std::bad_alloc();
  FileBytes out{std::shared_ptr<uint8_t>(static_cast<uint8_t*>(p), [](uint8_t* q) { std::free(q); }), 0};
  out.size = read_fully(d.fd, out.bytes.get(), size);
  if (out.size < 0) fail(exit, unreadable, cat("cannot read '", shown, "': ", std::strerror(errno)));
  if (out.size < size)
    fail(exit, unreadable, cat("'", shown, "' shrank while it was read: ", out.size, " of ", size, " bytes"));
  return out;
}

}  // namespace

FileBytes read_file(const std::string& path, Exit exit) {
  return read_up_to(path, std::numeric_limits<int64_t>::max(), exit);
}

FileBytes read_file_head(const std::string& path, int64_t at_most, Exit exit) {
  return read_up_to(path, at_most, exit);
}

namespace {
// Removes a temporary file of the same name. An ended process that had the same pid may have left it.
const std::string& without_stale(const std::string& temporary) {
  ::unlink(temporary.c_str());
  return temporary;
}
}  // namespace

FileWriter::FileWriter(std::string path, int64_t needed)
    : path_(std::move(path)),
      temporary_(cat(path_, ".tmp-", ::getpid())),
      registered_(without_stale(temporary_)),
      file_(temporary_, needed, path_) {}

FileWriter::~FileWriter() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void FileWriter::commit() {
  file_.finish();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) storage_error("cannot put into place", path_, errno);
  committed_ = true;
  sync_dir(folder_of(path_));
}

}  // namespace amp
