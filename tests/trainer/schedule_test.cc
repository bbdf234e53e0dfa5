// Schedules against transformers' get_scheduler and torch's OneCycleLR (schedule.json, made by make_schedule.py).
#include "trainer/loop/schedule.h"

#include <catch2/catch_all.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "backend/update.h"
#include "backend/update_rules.h"
#include "base/error.h"
#include "tests/support.h"

using namespace amp;
using nlohmann::json;

static json golden() {
  std::ifstream f(test::test_data("trainer/schedule.json"));
  return json::parse(f);
}

// The doubles are equal: formulas have the original order of operations, and Python's math uses the C library.
TEST_CASE("learning rates are those of the reference libraries") {
  const json g = golden();
  for (const json& c : g.at("cases")) {
    INFO(c.at("kind") << " warmup " << c.at("warmup") << " total " << c.at("total") << " " << c.at("options"));
    ScheduleConfig s;
    s.kind = schedule_from_name(c.at("kind"));
    s.lr = g.at("lr");
    s.warmup_steps = c.at("warmup");
    s.total_steps = c.at("total");
    s.epoch_steps = c.value("epoch", 1);
    for (const auto& [name, value] : c.at("options").items())
      s.settings[name] = value.is_string() ? value.get<std::string>() : value.dump();
    const auto want = c.at("lr").get<std::vector<double>>();
    const auto got = Schedule(s).table(static_cast<int64_t>(want.size()));
    for (size_t i = 0; i < want.size(); ++i) {
      INFO("step " << i);
      CHECK(got[i] == want[i]);
    }
    // A Schedule whose first query is in the middle must give the same rates.
    for (size_t i = want.size() / 2; i < want.size(); ++i) CHECK(Schedule(s).lr(static_cast<int64_t>(i)) == want[i]);
  }
}

TEST_CASE("the rate of averaging is that of torch's SWALR") {
  const json g = golden();
  REQUIRE(g.at("averaged").size() == 4);
  for (const json& c : g.at("averaged")) {
    INFO(c.at("kind") << " from " << c.at("start"));
    ScheduleConfig s;
    s.kind = c.at("kind");
    s.lr = g.at("lr");
    s.total_steps = 1000;
    s.averaged = {c.at("start"), c.at("swa_lr"), c.at("anneal"), c.at("strategy") == "cos"};
    const auto want = c.at("lr").get<std::vector<double>>();
    CHECK(Schedule(s).table(1000) == want);
    for (const int64_t i : {999, 703, 500, 21, 0}) CHECK(Schedule(s).lr(i) == want[static_cast<size_t>(i)]);
  }
}

TEST_CASE("warm-up given as a fraction equals Hugging Face's") {
  const json g = golden();
  for (const json& w : g.at("warmups")) {
    INFO(w);
    CHECK(resolve_warmup(w[0], w[1]) == w[2].get<int64_t>());
  }
}

TEST_CASE("past the end of the run the last value stays") {
  for (const char* kind : {"linear", "cosine", "polynomial", "one_cycle"}) {
    ScheduleConfig s;
    s.kind = kind;
    s.total_steps = 20;
    const Schedule schedule(s);
    CHECK(schedule.lr(25) == Catch::Approx(schedule.lr(20)).margin(1e-20));
    CHECK(schedule.lr(25) < 1e-6);
  }
}

TEST_CASE("schedule settings are checked") {
  CHECK(schedule_from_name("one-cycle") == "one_cycle");
  try {
    schedule_from_name("liner");
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::usage);
    CHECK(e.hint().find("'linear'") != std::string::npos);
  }
  ScheduleConfig s;
  s.lr = -1;
  CHECK_THROWS_AS(Schedule(s), Error);
  s.lr = std::nan("");
  CHECK_THROWS_AS(Schedule(s), Error);
  CHECK_THROWS_AS(resolve_warmup(-0.5, 10), Error);
  CHECK_THROWS_AS(resolve_warmup(std::nan(""), 10), Error);
  ScheduleConfig w;
  w.kind = "warmup_stable_decay";
  for (const auto& [name, value] : std::map<std::string, std::string>{{"decay_tipe", "cosine"},
                                                                      {"decay_type", "cosin"},
                                                                      {"min_lr_ratio", "1.5"},
                                                                      {"min_lr_ratio", "nan"},
                                                                      {"num_cycles", "1x"}}) {
    w.settings = {{name, value}};
    INFO(name << "=" << value);
    CHECK_THROWS_AS(Schedule(w), Error);
  }
  w.kind = "multistep";
  w.settings = {};
  CHECK_THROWS_AS(Schedule(w), Error);
}

TEST_CASE("docs/optimizers.md names every rule and schedule with its keys", "[docs]") {
  std::ifstream f(test::source_root() + "/docs/optimizers.md");
  const std::string text((std::istreambuf_iterator<char>(f)), {});
  REQUIRE_FALSE(text.empty());
  const auto named = [&](const std::string& word) {
    INFO(word);
    CHECK(text.find("`" + word + "`") != std::string::npos);
  };
  for (const ScheduleRow* row : schedule_rows()) {
    named(row->name);
    for (const ScheduleKey& k : row->keys) named(k.name);
  }
  for (const std::string& rule : update_rule_names()) {
    named(rule);
    for (const RuleKey& k : rule_keys(rule)) named(std::string(k.name));
  }
}
