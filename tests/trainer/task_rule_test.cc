// Tests properties of the tasks' rows on which the rest of the program relies.
#include "trainer/tasks/task_rule.h"

#include <catch2/catch_all.hpp>

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
