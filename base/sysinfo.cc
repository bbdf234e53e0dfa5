// Reads /proc, control groups (versions 1 and 2) and rlimits. Every source may be missing in a container, so each
// function has a fallback.
#include "base/sysinfo.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <utility>

#include "base/error.h"

namespace amp {

int64_t peak_rss_bytes() {
  // getrusage() is only a fallback, because the process inherits its maximum from the parent process.
  if (std::FILE* f = std::fopen("/proc/self/status", "re")) {
    char line[256];
    long long kib = 0;
    bool found = false;
    while (!found && std::fgets(line, sizeof line, f)) found = std::sscanf(line, "VmHWM: %lld", &kib) == 1;
    std::fclose(f);
    if (found) return kib * 1024;
  }
  rusage usage;
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<int64_t>(usage.ru_maxrss) * 1024 : 0;
}

namespace {
// Returns the number in a file; -1 if the file has no number or contains "max" (no limit).
int64_t number_in(const std::string& path) {
  std::FILE* f = std::fopen(path.c_str(), "re");
  if (!f) return -1;
  long long n = -1;
  if (std::fscanf(f, "%lld", &n) != 1) n = -1;
  std::fclose(f);
  return n;
}

int64_t smaller(int64_t a, int64_t b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

// Returns the limit of a control group: the smallest among its own limit and those of all enclosing groups.
int64_t limit_up_to(const std::string& mount, std::string group, const char* file) {
  int64_t limit = number_in(mount + "/" + file);
  for (; group.size() > 1; group.resize(group.rfind('/')))
    limit = smaller(limit, number_in(mount + group + "/" + file));
  return limit;
}

int64_t physical_bytes() { return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE); }

// Returns the number of resident bytes and of mapped bytes of this process.
std::pair<int64_t, int64_t> used_bytes() {
  long long mapped = 0, resident = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(f, "%lld %lld", &mapped, &resident) != 2) mapped = resident = 0;
    std::fclose(f);
  }
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  return {resident * page, mapped * page};
}

int64_t address_limit() {
  rlimit l;
  return ::getrlimit(RLIMIT_AS, &l) == 0 && l.rlim_cur != RLIM_INFINITY ? static_cast<int64_t>(l.rlim_cur) : -1;
}
}  // namespace

int64_t mapped_bytes() { return used_bytes().second; }

int64_t cgroup_memory_limit(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  int64_t limit = -1;
  for (std::string line; std::getline(file, line);) {  // version 1: "4:memory:/group"; version 2: "0::/group"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (kind.empty()) {
      limit = smaller(limit, limit_up_to(root + "/sys/fs/cgroup", group, "memory.max"));
      limit = smaller(limit, limit_up_to(root + "/sys/fs/cgroup/unified", group, "memory.max"));
    } else if (kind == "memory") {
      limit = smaller(limit, limit_up_to(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return limit;
}

int64_t memory_limit_bytes() { return smaller(smaller(physical_bytes(), cgroup_memory_limit()), address_limit()); }

int64_t available_memory_bytes() {
  const auto [resident, mapped] = used_bytes();
  const int64_t memory = smaller(physical_bytes(), cgroup_memory_limit()) - resident, addresses = address_limit();
  return std::max<int64_t>(0, addresses < 0 ? memory : std::min(memory, addresses - mapped));
}

std::string cache_path(const std::string& name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache) return cat(cache, "/onnx-amp-finetune/", name);
  const char* home = std::getenv("HOME");
  return home && *home ? cat(home, "/.cache/onnx-amp-finetune/", name) : std::string{};
}

std::string loopback_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  char space[64] = {};
  const ssize_t n = ::readlink("/proc/self/ns/net", space, sizeof space - 1);
  return boot.empty() || n <= 0 ? host_name() : cat(boot, " ", space);
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string utc_timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts;
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", ::gmtime_r(&now, &parts));
  return text;
}

}  // namespace amp
