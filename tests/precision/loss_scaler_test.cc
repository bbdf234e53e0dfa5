// LossScaler against traces of torch.amp.GradScaler (tests/data/precision/scaler_golden.txt, made by
// make_scaler_golden.py) and against a reference with counters, for 10,000 random steps. Also floor, ceiling,
// hysteresis, state and errors.
#include "precision/loss_scaler.h"

#include <bit>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

#include "base/error.h"
#include "tests/support.h"

using namespace amp;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

LossScaleConfig torch_config(double init, double growth, double backoff, int interval) {
  LossScaleConfig c;
  c.init = init;
  c.growth_factor = growth;
  c.backoff_factor = backoff;
  c.growth_interval = interval;
  c.min = 0;
  c.max = kInf;
  return c;
}

using Trace = std::vector<std::pair<float, int>>;
Trace run(LossScaler scaler, std::string_view pattern) {
  Trace out;
  for (const char c : pattern) {
    const StepScale s = scaler.update(c != '.');
    CHECK(s.applied == (c == '.'));
    CHECK(s.next == scaler.scale());
    out.emplace_back(scaler.scale(), scaler.state().growth_tracker);
  }
  return out;
}

// A reference that is written from the rules. It uses counters where the implementation branches on trackers.
struct Reference {
  LossScaleConfig c;
  float scale;
  int clean = 0, bad_in_a_row = 0;
  explicit Reference(const LossScaleConfig& config) : c(config), scale(static_cast<float>(config.init)) {}
  void step(bool bad) {
    bad_in_a_row = bad ? bad_in_a_row + 1 : 0;
    clean = bad ? 0 : clean + 1;
    if (bad_in_a_row >= c.hysteresis) {
      scale = static_cast<float>(scale * c.backoff_factor);
      if (scale < c.min) scale = static_cast<float>(c.min);
    }
    if (!bad && clean % c.growth_interval == 0) {
      const auto next = static_cast<float>(scale * c.growth_factor);
      if (next > c.max) {
        scale = static_cast<float>(c.max);
      } else if (next < std::numeric_limits<float>::infinity()) {
        scale = next;
      }
    }
  }
};

}  // namespace

TEST_CASE("golden traces of torch's GradScaler") {
  CHECK(run(LossScaler(torch_config(16, 2, 0.5, 3)), "...i..n.....") ==
        Trace{{16, 1}, {16, 2}, {32, 0}, {16, 0}, {16, 1}, {16, 2}, {8, 0}, {8, 1}, {8, 2}, {16, 0}, {16, 1}, {16, 2}});
  CHECK(run(LossScaler(torch_config(1, 2, 0.5, 1)), "....") == Trace{{2, 0}, {4, 0}, {8, 0}, {16, 0}});
  CHECK(run(LossScaler(torch_config(100, 1.5, 0.25, 2)), "..i") == Trace{{100, 1}, {150, 0}, {37.5, 0}});
}

TEST_CASE("no floor and no ceiling as GradScaler") {
  CHECK(run(LossScaler(torch_config(1, 2, 0.5, 2000)), "iiii") ==
        Trace{{0.5f, 0}, {0.25f, 0}, {0.125f, 0}, {0.0625f, 0}});
  LossScaler tiny(torch_config(std::ldexp(1.0, -148), 2, 0.5, 2000));
  CHECK(run(tiny, "iii") == Trace{{std::ldexp(1.0f, -149), 0}, {0.0f, 0}, {0.0f, 0}});
  for (int i = 0; i < 3; ++i) tiny.update(true);
  CHECK(tiny.unscale_factor() == std::numeric_limits<float>::infinity());
  CHECK(run(LossScaler(torch_config(std::ldexp(1.0, 127), 2, 0.5, 1)), "..") ==
        Trace{{1.7014118346046923e38f, 0}, {1.7014118346046923e38f, 0}});
}

TEST_CASE("traces written by torch.amp.GradScaler") {
  std::ifstream file(test::test_data("precision/scaler_golden.txt"));
  REQUIRE(file);
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    std::istringstream in(line);
    double init, growth, backoff;
    int interval;
    std::string pattern;
    in >> init >> growth >> backoff >> interval >> pattern;
    LossScaler scaler(torch_config(init, growth, backoff, interval));
    INFO(line.substr(0, 100));
    for (const char c : pattern) {
      std::string want;
      in >> want;
      scaler.update(c != '.');
      char got[32];
      std::snprintf(got, sizeof got, "%08x:%d", std::bit_cast<uint32_t>(scaler.scale()), scaler.state().growth_tracker);
      REQUIRE(got == want);
    }
  }
  CHECK(lines == 30);
}

TEST_CASE("10,000-step storms equal a reference") {
  const double rate = GENERATE(0.0, 0.01, 0.1, 0.5, 1.0);
  const int hysteresis = GENERATE(1, 3);
  const bool bounded = GENERATE(true, false);
  LossScaleConfig c;
  c.growth_interval = 20;
  c.hysteresis = hysteresis;
  if (!bounded) {
    c.min = 0;
    c.max = kInf;
  }
  LossScaler scaler(c);
  Reference reference(c);
  std::mt19937 random(42);
  int64_t skips = 0, in_a_row = 0;
  for (int i = 0; i < 10000; ++i) {
    const bool bad = static_cast<double>(random()) < rate * 4294967296.0;
    skips += bad;
    in_a_row = bad ? in_a_row + 1 : 0;
    const StepScale s = scaler.update(bad);
    reference.step(bad);
    REQUIRE(scaler.scale() == reference.scale);
    REQUIRE(scaler.state().growth_tracker == reference.clean % c.growth_interval);
    REQUIRE(s.consecutive_skips == in_a_row);
    if (bounded) REQUIRE((scaler.scale() >= 1 && scaler.scale() <= 16777216));
  }
  CHECK(scaler.state().total_skips == skips);
}

TEST_CASE("floor, ceiling and hysteresis") {
  LossScaleConfig c;
  c.init = 2;
  c.max = 5;
  c.growth_interval = 1;
  LossScaler s(c);
  CHECK(s.update(true).backed_off);
  const StepScale floor = s.update(true);
  CHECK(floor.next == 1);
  CHECK(floor.at_floor);
  CHECK(floor.consecutive_skips == 2);
  CHECK(s.update(false).next == 2);
  CHECK(s.update(false).next == 4);
  CHECK(s.update(false).next == 5);
  CHECK_FALSE(s.update(false).grew);

  c.hysteresis = 2;
  LossScaler h(c);
  CHECK_FALSE(h.update(true).backed_off);  // the first infinity does not lower the scale, but its step is skipped
  CHECK(h.update(true).next == 1);
  CHECK(h.update(false).next == 2);  // a finite step resets the hysteresis and lets the scale grow
  CHECK(h.update(true).next == 2);
}

TEST_CASE("static and off still skip") {
  LossScaleConfig c;
  c.mode = LossScaleConfig::Mode::fixed;
  c.init = 128;
  LossScaler fixed(c);
  const StepScale s = fixed.update(true);
  CHECK_FALSE(s.applied);
  CHECK(s.next == 128);
  CHECK(fixed.unscale_factor() == 1.0f / 128);
  c.mode = LossScaleConfig::Mode::off;
  LossScaler off(c);
  CHECK_FALSE(off.enabled());
  CHECK(off.scale() == 1);
  CHECK_FALSE(off.update(true).applied);
  CHECK(off.update(false).applied);
  CHECK(off.scale() == 1);
}

TEST_CASE("state survives a round trip; set_scale leaves the tracker") {
  LossScaleConfig c;
  c.growth_interval = 5;
  LossScaler a(c);
  for (const char x : std::string("..i...")) a.update(x == 'i');
  LossScaler b(c);
  b.restore(a.state());
  for (const char x : std::string("...i.......i..")) {
    CHECK(a.update(x == 'i').next == b.update(x == 'i').next);
    CHECK(a.state() == b.state());
  }
  LossScaler d(c);
  d.update(false);
  d.set_scale(32);
  CHECK(d.scale() == 32);
  CHECK(d.state().growth_tracker == 1);
  LossScaler::State damaged;
  damaged.scale = std::nanf("");
  CHECK_THROWS_AS(d.restore(damaged), Error);
}

TEST_CASE("the unscale factor is rounded once from double") {
  LossScaleConfig c;
  c.init = 3;
  CHECK(LossScaler(c).unscale_factor() == static_cast<float>(1.0 / 3.0));
}

TEST_CASE("a bad configuration is a usage error that names the field") {
  const auto [field, config] = GENERATE(table<std::string, LossScaleConfig>({
      {"growth_factor", {.growth_factor = 1}},
      {"backoff_factor", {.backoff_factor = 1}},
      {"growth_interval", {.growth_interval = 0}},
      {"init", {.init = 0}},
      {"init", {.init = 0.5}},
      {"hysteresis", {.hysteresis = 0}},
      {"max", {.init = 2, .min = 2, .max = 1}},
  }));
  try {
    LossScaler s(config);
    FAIL("no error for " << field);
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::usage);
    CHECK_THAT(e.fact(), Catch::Matchers::ContainsSubstring("loss_scale." + field));
  }
}
