// Implements read_or_map(), with a handler for SIGBUS. The handler only uses async-signal-safe functions and a fixed
// table of mappings. It ends the process with a message if the access that failed is in one of these mappings.
#include "base/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/activity.h"
#include "base/colors.h"
#include "base/io.h"
#include "base/message.h"
#include "base/spill.h"
#include "base/temporary.h"

namespace amp {

namespace {

// An entry of the table that the SIGBUS handler reads. `begin` is written before `size`, because a size above 0 marks
// the entry as valid.
struct Mapping {
  std::atomic<const uint8_t*> begin{nullptr};
  std::atomic<size_t> size{0};
};
constexpr int kSlots = 256;
Mapping mappings[kSlots];
std::mutex mutex;

void put(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // nothing can be done if stderr is closed
}

void on_bus_error(int, siginfo_t* info, void*) {
  const auto* const at = static_cast<const uint8_t*>(info->si_addr);
  for (const Mapping& m : mappings) {
    const size_t size = m.size;
    const uint8_t* const begin = m.begin;
    if (size == 0 || at < begin || at >= begin + size) continue;
    static constexpr char fact[] = " a file of data became shorter, or could not be read, while it was in use\n";
    static constexpr char line[] =
        R"({"id":"E_DATA_FILE","exit":5,"error":"a file of data became shorter, or could not be read, while it was )"
        R"(in use","where":"","hint":"do not change files that a run reads"})"
        "\n";
    if (errors_are_text()) {
      if (activity_is_shown()) put("\r\x1b[K");
      for (const char* const part : {ink(Ink::error), "error:", ink(Ink::none), fact}) put(part);
      put("  hint: do not change files that a run reads\n");
    }
    if (errors_are_json()) put(line);
    remove_temporaries();
    ::_exit(static_cast<int>(Exit::data));
  }
  ::signal(SIGBUS, SIG_DFL);  // the address is in no mapped file: the access is repeated and ends the process
}

void watch(const uint8_t* begin, size_t size) {
  const std::lock_guard lock(mutex);
  static bool installed = false;
  if (!installed) {
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &action, nullptr);
    installed = true;
  }
  for (Mapping& m : mappings) {
    if (m.size != 0) continue;
    m.begin = begin;
    m.size = size;
    return;
  }
}

void unmap(uint8_t* begin, size_t size) {
  {
    const std::lock_guard lock(mutex);
    for (Mapping& m : mappings) {
      if (m.begin == begin) m.size = 0;
    }
  }
  ::munmap(begin, size);
}

}  // namespace

FileBytes read_or_map(const std::string& path, Exit exit) {
  struct stat s = {};
  const bool large = ::stat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode) && s.st_size > in_memory_left();
  const auto size = static_cast<size_t>(s.st_size);
  const int file = large ? open_file(path.c_str(), O_RDONLY) : -1;
  void* const at = file >= 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  if (file >= 0) ::close(file);
  if (at == MAP_FAILED) {
    const FileBytes read = read_file(path, exit);  // if mapping failed: read_file() reads the file or reports the error
    const auto counted = std::make_shared<InMemory>(read.size);
    return {std::shared_ptr<uint8_t>(read.bytes.get(), [read, counted](uint8_t*) {}), read.size};
  }
  auto* const bytes = static_cast<uint8_t*>(at);
  watch(bytes, size);
  return {std::shared_ptr<uint8_t>(bytes, [size](uint8_t* p) { unmap(p, size); }), static_cast<int64_t>(size)};
}

}  // namespace amp
