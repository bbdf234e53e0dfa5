// Tests properties of the tasks' rows on which the rest of the program relies.
#include "trainer/tasks/task_rule.h"

#include <catch2/catch_all.hpp>

#include "trainer/losses/loss.h"
#include "trainer/losses/loss_text.h"

using namespace amp;

TEST_CASE("rows of tasks are complete", "[tasks]") {
  CHECK(task_rules().size() >= 10);
  for (const TaskRule& rule : task_rules()) {
    INFO(rule.name);
    const Task task(rule.name);
    const LossSpec loss = parse_losses({rule.loss})[0];
    CHECK(fits(task, loss));
    CHECK(task_from_name(rule.name) == task);
    CHECK_NOTHROW(check_metric(task, best_metric(task), ""));
    REQUIRE(rule.make_metrics);
    CHECK(rule.make_predictions);
    CHECK((rule.make_error || rule.embeddings));
    CHECK((!rule.images || rule.labels));
    CHECK((!rule.tables || rule.has_classes() || rule.has_numbers()));
    CHECK((!rule.ordered_classes || rule.named_classes));
    for (const std::string_view synonym : rule.synonyms) CHECK(task_from_name(std::string(synonym)) == Task::none);
  }
}

TEST_CASE("a loss without a task fits every task, and a task that is not known fits every loss", "[tasks]") {
  size_t free = 0;
  for (const LossRule& row : loss_rules()) {
    LossSpec loss;
    loss.kind = row.name;
    INFO(row.name);
    CHECK(fits(Task::none, loss));
    if (task_of(loss) != Task::none) continue;
    ++free;
    for (const TaskRule& rule : task_rules()) {
      INFO(rule.name);
      CHECK(fits(Task(rule.name), loss));
    }
  }
  CHECK(free >= 2);
  LossSpec numbers;
  numbers.kind = "mse";
  CHECK(task_of(numbers) != Task::none);
  CHECK_FALSE(fits(Task::token, numbers));
}
