#include "base/sysinfo.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>

namespace amp {

int64_t peak_rss_bytes() {
  // Not getrusage first: its maximum is inherited from the process that started this one.
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
