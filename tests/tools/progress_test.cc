// The progress display: durations, the bar at several widths of the terminal, the sparkline, and its lines if the
// output is not a terminal.
#include "tools/progress.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace amp;

namespace {
// Returns the text that f prints with a Progress.
template <class F>
std::string printed(bool bar, int64_t every, F f) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = ::open_memstream(&text, &size);
  {
    Progress p(out, every, bar, 100);
    f(p);
  }
  std::fclose(out);
  std::string s(text, size);
  std::free(text);
  return s;
}

ProgressState at(int64_t step, double seconds) {
  ProgressState s;
  s.step = step;
  s.total = 250;
  s.seconds = seconds;
  s.loss = 0.43119;
  s.lr = 9.2e-5;
  s.samples_per_s = 41.21;
  s.epoch = 0.12;
  return s;
}
}  // namespace

TEST_CASE("durations and time left") {
  CHECK(format_duration(0) == "00:00");
  CHECK(format_duration(91.4) == "01:31");
  CHECK(format_duration(7384) == "2:03:04");
  CHECK(format_duration(std::nan("")) == "--:--");
  CHECK(format_duration(-1) == "--:--");
  CHECK(seconds_left(at(50, 10)) == Catch::Approx(40));
  ProgressState resumed = at(150, 10);
  resumed.first_step = 100;
  CHECK(seconds_left(resumed) == Catch::Approx(20));
  CHECK(std::isnan(seconds_left(at(0, 1))));
}

TEST_CASE("the bar fits the terminal and shows the state") {
  ProgressState s = at(30, 12);
  s.skipped = 1;
  CHECK(progress_bar(s, 200) ==
        " 12%|##                  | 30/250 [00:12<01:28, 41.2 samples/s] loss 0.4312 lr 9.2e-05 skipped 1");
  CHECK(progress_bar(s, 30).size() == 30);
  CHECK(progress_line(s) ==
        "step 30/250  epoch 0.12  loss 0.4312  lr 9.2e-05  41.2 samples/s  elapsed 00:12  left 01:28  skipped 1");
}

TEST_CASE("a narrow terminal gets what matters most") {
  ProgressState s = at(30, 12);
  s.skipped = 3;
  s.memory = 472ll << 20;
  Course loss;
  for (int i = 0; i < 30; ++i) loss.add(3 - 0.1 * i);
  CHECK(progress_bar(s, 120, &loss) ==
        " 12%|##                  | 30/250 [00:12<01:28, 41.2 samples/s] loss 0.4312 █▇▆▆▅▄▃▃▂▁ lr 9.2e-05 472 MiB "
        "skipped "
        "3");
  CHECK(progress_bar(s, 79, &loss) == " 12% 30/250 [00:12<01:28, 41.2 samples/s] loss 0.4312 █▇▆▆▅▄▃▃▂▁ skipped 3");
  CHECK(progress_bar(s, 39, &loss) == "30/250 <01:28 41.2/s loss 0.431 skip 3");
  CHECK(progress_bar(s, 32, &loss) == "30/250 <01:28 loss 0.431 skip 3");
  s.step = 123456;
  s.total = 1000000;
  for (int width = 0; width < 200; ++width) {
    CAPTURE(width);
    CHECK(display_width(progress_bar(s, width, &loss)) <= width);
    const std::string plain = progress_bar(s, width);
    // ASCII only, no block characters.
    CHECK(std::all_of(plain.begin(), plain.end(), [](char c) { return c >= ' ' && c < 127; }));
  }
}

TEST_CASE("a sparkline shows a course of any length in the columns that there are") {
  Course c;
  CHECK(c.sparkline(10).empty());
  c.add(2);
  CHECK(c.sparkline(10).empty());
  c.add(std::nan(""));
  c.add(1);
  CHECK(c.sparkline(10) == "█▁");
  c.add(2);
  CHECK(c.sparkline(10) == "█▁█");
  CHECK(c.sparkline(0).empty());
  Course flat;
  for (int i = 0; i < 5; ++i) flat.add(7);
  CHECK(flat.sparkline(4) == "▁▁▁▁");
  // The sparkline shows the means of equal parts of the values, for any number of values.
  for (const int n : {256, 257, 300, 513, 1000, 12345, 100000}) {
    Course falling;
    for (int i = 0; i < n; ++i) falling.add(-static_cast<double>(i));
    CAPTURE(n);
    CHECK(falling.sparkline(8) == "█▇▆▅▄▃▂▁");
  }
}

TEST_CASE("a bar that was drawn on a wider terminal is cleared whole") {
  CHECK(clear_line(0, 80, true) == "\r\x1b[K");
  CHECK(clear_line(79, 80, true) == "\r\x1b[K");
  CHECK(clear_line(119, 40, true) == "\x1b[2A\r\x1b[J");  // the display now has three rows
  CHECK(clear_line(119, 40, false) == "\r\x1b[J");
}

TEST_CASE("a terminal gets one line redrawn seldom, anything else a line every few steps") {
  const auto run = [](Progress& p) {
    for (int64_t s = 1; s <= 250; ++s) {
      p.update(at(s, 0.01 * static_cast<double>(s)));
      if (s == 100) p.message("evaluated");
    }
  };
  const std::string bar = printed(true, 50, run);
  CHECK(std::count(bar.begin(), bar.end(), '\n') == 2);  // the message's line and the last line
  const auto drawn = std::count(bar.begin(), bar.end(), '#') > 0 ? std::count(bar.begin(), bar.end(), '%') : 0;
  CHECK(drawn > 20);
  CHECK(drawn < 40);
  CHECK(bar.find("evaluated\n") != std::string::npos);
  CHECK(bar.find("250/250") != std::string::npos);
  const std::string plain = printed(false, 50, run);
  CHECK(std::count(plain.begin(), plain.end(), '\n') == 6);
  CHECK(plain.find('\r') == std::string::npos);
  CHECK(plain.find("\x1b") == std::string::npos);
  CHECK(std::all_of(plain.begin(), plain.end(), [](char c) { return c == '\n' || (c >= ' ' && c < 127); }));
  const std::string cut = printed(false, 50, [](Progress& p) {
    for (int64_t s = 1; s <= 60; ++s) p.update(at(s, 1));
  });
  CHECK(cut.find("step 60/250") != std::string::npos);  // a stopped run also prints its last line
}

TEST_CASE("an activity's line fits every width") {
  const ActivityState reading{"reading train.csv", "B", 102'400'000, 300'000'000, 2};
  CHECK(activity_line(reading, 79) == "reading train.csv   34%  102 of 300 MB  [00:02<00:04]");
  CHECK(activity_line(reading, 45) == "reading train.csv   34%  102 of 300 MB");
  CHECK(activity_line(reading, 30) == "reading train.csv   34%");
  CHECK(activity_line(reading, 20) == "reading tra...   34%");
  const ActivityState rows{"tokenizing", "rows", 12'345, 0, 1};
  CHECK(activity_line(rows, 79) == "tokenizing  12,345 rows");
  CHECK(activity_line({"writing model.onnx", "", 0, 0, 0}, 79) == "writing model.onnx");
  const ActivityState wide{"reading \xe8\xa8\x93\xe7\xb7\xb4\x1b[31m.csv", "B", 50, 100, 2};
  for (int width = 1; width < 60; ++width) {
    const std::string line = activity_line(wide, width);
    INFO(width << ": " << line);
    CHECK(display_width(line) <= width);
    CHECK(line.find('\x1b') == std::string::npos);
  }
}

TEST_CASE("an activity replaces the bar and messages stay above it") {
  const ActivityState evaluating{"evaluating", "samples", 10, 20, 1};
  const std::string said = printed(true, 50, [&](Progress& p) {
    p.activity(&evaluating);
    CHECK(p.shows_line());
    p.message("note: x");
    p.activity(nullptr);
    CHECK_FALSE(p.shows_line());
    p.update(at(30, 12));
    p.activity(&evaluating);
    p.activity(nullptr);
  });
  const std::string line = "evaluating   50%  10 of 20 samples  [00:01<00:01]", clear = "\r\x1b[K";
  CHECK(said.starts_with(clear + line + clear + "note: x\n" + clear + line + clear));
  CHECK(said.find("30/250", said.rfind(line)) != std::string::npos);  // after the note, the bar is printed again
  CHECK(printed(false, 50, [&](Progress& p) {
          p.activity(&evaluating);
          p.activity(nullptr);
        }).empty());
}
