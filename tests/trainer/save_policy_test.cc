// --save_strategy's time budget: the share of a run's time that checkpoints may take.
#include "trainer/loop/save_policy.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/errors.h"

using namespace amp;

TEST_CASE("checkpoints within a budget take its share of a run at most, after the first") {
  // Epochs of 1 ms, checkpoints of 35 ms: the time is simulated.
  const double epoch = 1e-3, cost = 35e-3;
  SaveBudget budget;
  double now = 0;
  int written = 0;
  for (int e = 0; e < 20000; ++e) {
    now += epoch;
    if (!budget.affords(now)) continue;
    now += cost;
    budget.spend(cost);
    ++written;
  }
  CHECK(written > 15);
  // The first checkpoint does not count, because its cost is unknown until it is written.
  CHECK(budget.spent() - cost <= SaveBudget::kShare * now);
}

TEST_CASE("epochs that are long beside a checkpoint are all saved") {
  SaveBudget budget;
  double now = 0;
  for (int e = 0; e < 100; ++e) {
    now += 60;
    REQUIRE(budget.affords(now));
    now += 2;
    budget.spend(2);
  }
}

TEST_CASE("a budget expects the next checkpoint to cost what the most expensive one did") {
  SaveBudget budget;
  budget.spend(1);
  budget.spend(0.1);
  CHECK_FALSE(budget.affords(2.0 / SaveBudget::kShare));
  CHECK(budget.affords(2.2 / SaveBudget::kShare));
}

TEST_CASE("save strategies by name") {
  CHECK(save_strategy("auto") == SaveStrategy::automatic);
  CHECK(save_strategy("epoch") == SaveStrategy::epoch);
  CHECK(save_strategy("steps") == SaveStrategy::steps);
  CHECK(save_strategy("no") == SaveStrategy::none);
  CHECK(test::error_of([] { save_strategy("never"); }).id() == "E_USAGE");
}
