#include "base/activity.h"

#include <catch2/catch_all.hpp>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

using namespace amp;
using namespace std::chrono_literals;

namespace {

// Records the texts that a display receives; an empty text is the end of an activity.
struct Shown {
  std::vector<std::optional<ActivityState>> states;
  Shown() {
    set_activity_display([this](const ActivityState* s) { states.push_back(s ? std::optional(*s) : std::nullopt); });
  }
  ~Shown() { set_activity_display({}); }
};

}  // namespace

TEST_CASE("an activity is shown after a while, not too often, and its end is reported") {
  const Shown shown;
  {
    Activity reading("reading a.csv", "rows", 1'000'000'000);
    const auto begin = std::chrono::steady_clock::now();
    int64_t reports = 0;
    for (; std::chrono::steady_clock::now() - begin < 800ms; ++reports) reading.add(1);
    const double least = Activity::kFirstSeconds, step = Activity::kSeconds;
    CHECK(reports > 1000);
    REQUIRE_FALSE(shown.states.empty());
    CHECK(shown.states.size() <= 3);  // a state is shown after 0.3, 0.5 and 0.7 seconds at the earliest
    double before = least - step;
    for (const auto& s : shown.states) {
      REQUIRE(s);
      CHECK(s->seconds >= before + step);
      CHECK(s->what == "reading a.csv");
      CHECK(s->done > 0);
      CHECK(s->total == 1'000'000'000);
      before = s->seconds;
    }
    CHECK(activity_is_shown());
  }
  CHECK_FALSE(shown.states.back());
  CHECK_FALSE(activity_is_shown());
}

TEST_CASE("a short activity is not shown, one without a count is at once") {
  const Shown shown;
  {
    Activity reading("reading", "rows", 10);
    for (int i = 0; i < 10; ++i) reading.add(1);
  }
  CHECK(shown.states.empty());
  {
    const Activity writing("writing");
    CHECK(shown.states.size() == 1);
  }
  REQUIRE(shown.states.size() == 2);
  CHECK_FALSE(shown.states[1]);
}

TEST_CASE("an activity within another, or in another thread, is not shown") {
  const Shown shown;
  {
    const Activity outer("outer");
    const Activity inner("inner");
    std::thread([] { const Activity other("other"); }).join();
    CHECK(shown.states.size() == 1);
  }
  REQUIRE(shown.states.size() == 2);
  CHECK(shown.states[0]->what == "outer");
  CHECK_FALSE(shown.states[1]);
  const Activity next("next");  // the display can be used again
  CHECK(shown.states.size() == 3);
}

TEST_CASE("the last component of a path") {
  CHECK(name_in_folder("a/b.csv") == "b.csv");
  CHECK(name_in_folder("b.csv") == "b.csv");
  CHECK(name_in_folder("a/b/") == "a/b/");
  CHECK(name_in_folder("") == "");
}
