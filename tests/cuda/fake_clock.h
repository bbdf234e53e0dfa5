// Clock and memory of a fake library; the test sets the measured times.
#pragma once

#include "backend/cuda/timed_library.h"

namespace amp::test {

template <class Library>
class WithClock : public Library {
 public:
  double own_ms = 2, its_ms = 1;
  std::optional<bool> memory;
  int timed = 0, runs = 0;  // incremented by the implementation of run()
  std::string shared_key;

  std::string name() const override { return "a library"; }
  std::string key() const override { return shared_key; }
  std::optional<bool> known_faster() const override { return memory; }
  void remember(bool faster) override { memory = faster; }
  // Runs `work` three times, as a real clock repeats its measurement.
  double milliseconds(const Kernel& work) override {
    const int before = runs;
    for (int i = 0; i < 3; ++i) work();
    ++timed;
    return runs > before ? its_ms : own_ms;
  }
};

}  // namespace amp::test
