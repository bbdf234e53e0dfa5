// The schedule of a run that is resumed with another number of steps.
#include "trainer/loop/resumed_schedule.h"

#include <catch2/catch_all.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/errors.h"

using namespace amp;
using test::error_of;

namespace {

using Settings = std::map<std::string, std::string>;

ScheduleConfig of(const std::string& kind, int64_t steps, double warmup = 0, Settings settings = {}) {
  return {kind, 1, warmup, steps, std::move(settings)};
}

// Returns the checkpoint of a run after `step` attempted steps, of which `applied` were applied.
Checkpoint checkpoint(const ScheduleConfig& schedule, int64_t max_steps, int64_t step, int64_t applied) {
  Checkpoint c;
  c.step = step;
  c.state = nlohmann::json{{"applied_steps", applied},
                           {"schedule", nlohmann::json::parse(schedule_record(schedule, max_steps))}}
                .dump();
  return c;
}

// Returns the schedule of a run of `was` steps that is resumed after `done` steps and then has `now` steps.
ScheduleConfig resumed(const ScheduleConfig& s, int64_t done, int64_t now, ResumeSchedule how) {
  ScheduleConfig asked = s;
  asked.total_steps = now;
  return resumed_schedule(asked, checkpoint(s, s.total_steps, done, done), how);
}

std::vector<double> rates(const ScheduleConfig& s, int64_t from, int64_t to) {
  const std::vector<double> all = Schedule(s).table(to);
  return {all.begin() + from, all.end()};
}

}  // namespace

TEST_CASE("a schedule that the number of steps does not change goes on without a question", "[resume]") {
  for (const ScheduleConfig& s :
       {of("constant", 10), of("constant_with_warmup", 10, 4), of("inverse_sqrt", 10, 4),
        of("inverse_sqrt", 10, 0, {{"timescale", "5"}}), of("step", 10, 2, {{"step_size", "3"}}),
        of("multistep", 10, 0, {{"milestones", "4:8:16"}}), of("exponential", 10, 1, {{"gamma", "0.9"}}),
        of("noam", 10, 4)}) {
    INFO(s.kind);
    for (const int64_t done : {3, 10}) {
      const ScheduleConfig longer = resumed(s, done, 25, ResumeSchedule::automatic);
      ScheduleConfig whole = s;
      whole.total_steps = 25;
      CHECK(rates(longer, 0, 25) == rates(whole, 0, 25));
      CHECK(rates(longer, 0, 10) == rates(s, 0, 10));
    }
  }
}

TEST_CASE("a schedule that the number of steps changes is refused until somebody says what becomes of it", "[resume]") {
  for (const ScheduleConfig& s :
       {of("linear", 10), of("cosine", 10), of("cosine_with_restarts", 10), of("cosine_with_min_lr", 10),
        of("polynomial", 10), of("warmup_stable_decay", 10, 0, {{"num_decay_steps", "4"}}), of("one_cycle", 10),
        of("step", 10), of("constant_with_warmup", 10, 0.5)}) {
    INFO(s.kind);
    for (const int64_t now : {7, 25}) {
      const Error e = error_of([&] { resumed(s, 5, now, ResumeSchedule::automatic); });
      CHECK(e.exit() == Exit::checkpoint);
      CHECK(e.id() == "E_CKPT_SCHEDULE");
      CHECK(e.fact().find("10 steps, now " + std::to_string(now)) != std::string::npos);
      CHECK(e.fact().find("`lr_scheduler` " + s.kind) != std::string::npos);
      for (const char* how : {"stretch", "restart", "hold"})
        CHECK(e.hint().find(std::string("`resume_schedule` ") + how) != std::string::npos);
    }
    CHECK(rates(resumed(s, 5, 10, ResumeSchedule::automatic), 0, 10) == rates(s, 0, 10));
  }
}

TEST_CASE("stretch, restart, hold", "[resume]") {
  const ScheduleConfig s = of("linear", 10, 0.2);  // 2 steps of warm-up
  // Hugging Face's linear with warm-up: step / warmup, then (total - step) / (total - warmup).
  CHECK(rates(resumed(s, 10, 20, ResumeSchedule::stretch), 10, 13) ==
        std::vector<double>{10.0 / 16, 9.0 / 16, 8.0 / 16});
  CHECK(rates(resumed(s, 10, 20, ResumeSchedule::restart), 10, 14) ==
        std::vector<double>{0, 0.5, 1, 7.0 / 8});  // over the 10 remaining steps
  CHECK(rates(resumed(s, 6, 20, ResumeSchedule::hold), 6, 13) ==
        std::vector<double>{4.0 / 8, 3.0 / 8, 2.0 / 8, 1.0 / 8, 1.0 / 8, 1.0 / 8, 1.0 / 8});
  CHECK(rates(resumed(s, 5, 7, ResumeSchedule::stretch), 5, 7) == std::vector<double>{2.0 / 5, 1.0 / 5});
  CHECK(rates(resumed(s, 5, 7, ResumeSchedule::hold), 5, 7) == rates(s, 5, 7));
}

TEST_CASE("a resumed run's schedule lasts: it is interrupted, made longer again", "[resume]") {
  const ScheduleConfig s = of("linear", 10);
  ScheduleConfig asked = s;
  asked.total_steps = 20;
  // Two steps were skipped. The schedule counts only applied steps.
  const ScheduleConfig again = resumed_schedule(asked, checkpoint(s, 10, 10, 8), ResumeSchedule::restart);
  CHECK(rates(again, 8, 10) == std::vector<double>{1, 0.9});
  const ScheduleConfig held = resumed_schedule(asked, checkpoint(s, 10, 10, 8), ResumeSchedule::hold);
  for (const ResumeSchedule how :
       {ResumeSchedule::automatic, ResumeSchedule::restart, ResumeSchedule::stretch, ResumeSchedule::hold}) {
    // The previous command is repeated. The schedule does not restart.
    CHECK(rates(resumed_schedule(asked, checkpoint(again, 20, 13, 11), how), 8, 18) == rates(again, 8, 18));
    CHECK(rates(resumed_schedule(asked, checkpoint(held, 20, 13, 11), how), 0, 20) == rates(held, 0, 20));
  }
  asked.total_steps = 40;
  CHECK(rates(resumed_schedule(asked, checkpoint(again, 20, 20, 18), ResumeSchedule::stretch), 18, 19) ==
        std::vector<double>{22.0 / 40});
  // Without --resume_schedule, a constant rate stays constant, and a schedule that depends on its end is refused.
  CHECK(rates(resumed_schedule(asked, checkpoint(held, 20, 20, 18), ResumeSchedule::automatic), 18, 40) ==
        std::vector<double>(22, 0.1));
  CHECK(error_of([&] { resumed_schedule(asked, checkpoint(again, 20, 20, 18), ResumeSchedule::automatic); }).id() ==
        "E_CKPT_SCHEDULE");
}

TEST_CASE("fewer steps than are done are refused; as many are not", "[resume]") {
  const ScheduleConfig s = of("linear", 10);
  for (const ResumeSchedule how : {ResumeSchedule::automatic, ResumeSchedule::hold}) {
    const Error e = error_of([&] { resumed(s, 5, 4, how); });
    CHECK(e.exit() == Exit::checkpoint);
    CHECK(e.id() == "E_CKPT_STEPS");
    CHECK(e.fact() == "the checkpoint has 5 steps already, 4 are requested");
    CHECK_NOTHROW(resumed(s, 5, 5, how));
  }
}

TEST_CASE("a checkpoint whose schedule no run has is refused, without counting its steps", "[resume]") {
  const ScheduleConfig asked = of("linear", 20);
  for (const char* change : {R"({"max_steps": -1})", R"({"begin": -1})", R"({"steps": 9223372036854775807})",
                             R"({"begin": 9223372036854775807})", R"({"steps": "10"})", R"({"hold": 1})"}) {
    INFO(change);
    Checkpoint c = checkpoint(of("linear", 10), 10, 5, 5);
    nlohmann::json state = nlohmann::json::parse(c.state);
    state["schedule"].update(nlohmann::json::parse(change));
    c.state = state.dump();
    CHECK(error_of([&] { resumed_schedule(asked, c, ResumeSchedule::automatic); }).id() == "E_CKPT_STATE");
  }
  Checkpoint endless = checkpoint(of("constant", int64_t{1} << 50), int64_t{1} << 50, 5, 5);
  resumed_schedule(of("constant", 20), endless, ResumeSchedule::automatic);
}
