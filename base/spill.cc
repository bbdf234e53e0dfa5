// Arrays that move from the heap to a mapped, unnamed temporary file when all arrays together exceed the limit. `held`
// counts the bytes in memory of all arrays and InMemory objects. The limit is approximate when threads allocate
// concurrently.
#include "base/spill.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <string>

#include "base/error.h"
#include "base/fs.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/sysinfo.h"
#include "base/text.h"

namespace amp {

namespace {

constexpr size_t kFileStep = size_t{1} << 20;
std::atomic<int64_t> held{0};  // bytes in memory of all arrays and InMemory objects

std::string spill_folder() {
  const char* const named = std::getenv("TMPDIR");
  if (named && *named) return named;
  return is_dir("/var/tmp") ? "/var/tmp" : "/tmp";  // /var/tmp is on a disk, while /tmp is often in memory
}

[[noreturn]] void refuse(const std::string& what, int code, size_t bytes) {
  const std::string folder = spill_folder();
  const int64_t left = free_bytes(folder);
  fail(Exit::storage, "E_SPILL",
       cat("data of more than ", with_thousands(in_memory_limit()), " bytes goes to a temporary file in '",
           printable(folder), "', which ", what, ": ", std::strerror(code), ", ",
           with_thousands(static_cast<int64_t>(bytes)), " bytes needed",
           left < 0 ? "" : cat(", ", with_thousands(left), " bytes free")),
       "set TMPDIR to a folder with enough space, or keep more data in memory with `in_memory_max_size`");
}

int temporary_file(size_t bytes) {
  const std::string folder = spill_folder();
  int file = open_file(folder.c_str(), O_TMPFILE | O_RDWR, 0600);
  if (file >= 0) return file;
  std::string name = folder + "/onnx-amp-XXXXXX";  // if the file system lacks O_TMPFILE: a named file, unlinked at once
  file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) refuse("cannot be made", errno, bytes);
  ::unlink(name.c_str());
  return file;
}

}  // namespace

int64_t in_memory_limit() {
  static const int64_t quarter = memory_limit_bytes() / 4;
  return limits().in_memory_bytes > 0 ? limits().in_memory_bytes : quarter;
}

int64_t in_memory_left() { return std::max<int64_t>(0, in_memory_limit() - held); }

InMemory::InMemory(int64_t bytes) : bytes_(bytes) { held += bytes; }
InMemory::~InMemory() { held -= bytes_; }

SpillBytes::~SpillBytes() {
  if (file_ >= 0) {
    if (data_) ::munmap(data_, capacity_);
    ::close(file_);
  } else if (data_) {
    std::free(data_);
    held -= static_cast<int64_t>(capacity_);
  }
}

void SpillBytes::reserve(size_t bytes) {
  if (bytes <= capacity_) return;
  const auto more = static_cast<int64_t>(bytes - capacity_);
  if (file_ < 0 && held + more <= in_memory_limit()) {
    void* const larger = std::realloc(data_, bytes);
    if (!larger) throw std::bad_alloc();
    data_ = static_cast<uint8_t*>(larger);
    capacity_ = bytes;
    held += more;
    return;
  }
  const size_t whole = (bytes + kFileStep - 1) / kFileStep * kFileStep;
  if (file_ >= 0) return grow_file(whole);
  move_to_file(whole);
}

void SpillBytes::grow_file(size_t capacity) {
  // Blocks of the disk are allocated now. On a full disk a later write to a page would end the process with SIGBUS.
  if (const int code = ::posix_fallocate(file_, 0, static_cast<off_t>(capacity))) refuse("has no room", code, capacity);
  void* const at = data_ ? ::mremap(data_, capacity_, capacity, MREMAP_MAYMOVE)
                         : ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (at == MAP_FAILED) refuse("cannot be mapped", errno, capacity);
  data_ = static_cast<uint8_t*>(at);
  capacity_ = capacity;
}

void SpillBytes::move_to_file(size_t capacity) {
  SpillBytes moved;
  moved.file_ = temporary_file(capacity);
  moved.grow_file(capacity);
  if (capacity_ > 0) std::memcpy(moved.data_, data_, capacity_);
  swap(moved);
}

}  // namespace amp
