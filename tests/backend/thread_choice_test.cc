#include "backend/thread_choice.h"

#include <catch2/catch_test_macros.hpp>
#include <map>

using namespace amp;

namespace {

// Simulates runs with the given `seconds` per number of threads until the choice is made. Returns how often each number
// was tried.
std::map<int, int> decide(ThreadChoice& choice, int most, const std::map<int, double>& seconds) {
  std::map<int, int> tried;
  for (int n = choice.next(most); choice.deciding(); n = choice.next(most)) {
    ++tried[n];
    choice.took(seconds.at(n) * (tried[n] == 2 ? 1 : 3));  // other processes slow all runs down, except the second one
  }
  return tried;
}

}  // namespace

TEST_CASE("a Program's threads are those of its fastest runs", "[backend]") {
  ThreadChoice one, two, all;
  CHECK(decide(one, 6, {{6, 2e-3}, {1, 1e-4}, {2, 2e-4}, {4, 3e-4}}).size() == 4);
  CHECK(one.next(6) == 1);
  decide(two, 6, {{6, 2e-3}, {1, 1e-3}, {2, 2e-4}, {4, 3e-4}});
  CHECK(two.next(6) == 2);
  decide(all, 6, {{6, 1e-4}, {1, 1e-3}, {2, 2e-3}, {4, 3e-3}});
  CHECK(all.next(6) == 0);  // using all threads is fastest: 0 means the caller's number of threads
  // The choice is made again if the number of available threads changes.
  CHECK(one.next(2) == 2);
  CHECK(one.deciding());
}

TEST_CASE("a choice that was made beside other work is made again", "[backend]") {
  ThreadChoice choice;
  decide(choice, 8, {{8, 5e-3}, {1, 2e-3}, {2, 4e-3}, {4, 7e-3}});
  CHECK(choice.next(8) == 1);
  int runs = 2;  // two runs so far, of which decide() has begun one
  while (!choice.deciding() && runs < 1000) choice.next(8), ++runs;
  CHECK(runs == 64);
  // Four threads, which took far longer, are not tried again.
  CHECK(decide(choice, 8, {{8, 1e-3}, {1, 2e-3}, {2, 3e-3}}).size() == 3);
  CHECK(choice.next(8) == 0);
  for (runs = 2; !choice.deciding() && runs < 1000; ++runs) choice.next(8);
  CHECK(runs == 512);
  // Old measurements are not compared with new ones, even if all runs have become much slower.
  decide(choice, 8, {{8, 2e-2}, {1, 1.5e-2}, {2, 1.8e-2}, {4, 3e-2}});
  CHECK(choice.next(8) == 1);
}

TEST_CASE("few threads are not tried where all of them need long, nor where there is one", "[backend]") {
  ThreadChoice slow, single;
  const std::map<int, int> tried = decide(slow, 16, {{16, 0.5}});
  CHECK(tried.size() == 1);
  CHECK(slow.next(16) == 0);
  CHECK(single.next(1) == 0);
  CHECK_FALSE(single.deciding());
}
