// The counters of -fsanitize=fuzzer are one byte per edge, in the section __sancov_cntrs. A child copies them to shared
// memory, and the parent adds them up. Without that instrumentation the section and the sanitizers' functions do not
// exist, and everything here does nothing.
#include "fuzz/child_coverage.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string_view>

extern "C" {
__attribute__((weak, visibility("hidden"))) extern uint8_t __start___sancov_cntrs[];
__attribute__((weak, visibility("hidden"))) extern uint8_t __stop___sancov_cntrs[];
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());
__attribute__((weak)) int __asan_report_present();
__attribute__((weak)) const char* __asan_get_report_description();
}

namespace amp::fuzz {

namespace {

struct Shared {
  bool published = false, fault = false;
  uint8_t counters[1];  // the first of size() counters
};
Shared* shared = nullptr;

size_t size() { return static_cast<size_t>(__stop___sancov_cntrs - __start___sancov_cntrs); }

void on_death() {
  const bool by_asan = __asan_report_present && __asan_report_present() && __asan_get_report_description;
  const std::string_view what = by_asan ? __asan_get_report_description() : "undefined behavior";
  shared->fault = what.find("out-of-memory") == what.npos && what.find("too-big") == what.npos;
}

}  // namespace

void share_coverage() {
  if (shared) return;
  void* const at = ::mmap(nullptr, sizeof(Shared) + size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::abort();
  shared = static_cast<Shared*>(at);
}

void begin_child_coverage() { std::memset(__start___sancov_cntrs, 0, size()); }

void end_child_coverage() {
  std::memcpy(shared->counters, __start___sancov_cntrs, size());
  shared->published = true;
}

void add_child_coverage() {
  if (!shared->published) return;
  shared->published = false;
  for (size_t i = 0; i < size(); ++i) {
    uint8_t& counter = __start___sancov_cntrs[i];
    counter = static_cast<uint8_t>(std::min(255, counter + shared->counters[i]));
  }
}

void watch_child_faults() {
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(on_death);
}

void require_no_child_fault() {
  if (!shared->fault) return;
  std::cerr << "a sanitizer ended the helper process\n";
  std::abort();
}

}  // namespace amp::fuzz
