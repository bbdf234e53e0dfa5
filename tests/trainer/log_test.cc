// metrics.jsonl and the progress display.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/support.h"
#include "trainer/metrics_log.h"
#include "trainer/progress.h"

using namespace amp;
using nlohmann::json;
namespace stdfs = std::filesystem;

namespace {
std::vector<json> lines_of(const std::string& path) {
  std::ifstream f(path);
  std::vector<json> out;
  for (std::string line; std::getline(f, line);) out.push_back(json::parse(line));
  return out;
}

StepLine line(int64_t step, double loss = 0.1) {
  StepLine l;
  l.step = step;
  l.loss = loss;
  return l;
}

// What f prints to a Progress.
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

TEST_CASE("a step's line holds every field, all bits of the numbers, and null for what is not finite") {
  StepLine l = line(7, 0.1 + 0.2);
  l.lr = 1e-5;
  l.loss_scale = 65536;
  l.grad_norm = std::numeric_limits<double>::infinity();
  l.samples_per_s = std::nan("");
  l.skipped = true;
  l.memory = int64_t{5} << 32;
  const json j = json::parse(to_json(l));
  CHECK(j.at("step") == 7);
  CHECK(j.at("loss").get<double>() == 0.1 + 0.2);
  CHECK(j.at("lr").get<double>() == 1e-5);
  CHECK(j.at("loss_scale") == 65536.0);
  CHECK(j.at("grad_norm").is_null());
  CHECK(j.at("samples_per_s").is_null());
  CHECK(j.at("skipped") == true);
  CHECK(j.at("tokens_per_s") == 0);
  CHECK(j.at("epoch") == 0);
  CHECK(j.at("memory") == (int64_t{5} << 32));
  CHECK(json::parse(JsonObject().add("a\"\n", "b\\\x01\xff").str()).at("a\"\n") == "b\\\x01\xef\xbf\xbd");
}

TEST_CASE("lines are in the file at once, and a resumed run has one line a step") {
  const test::TempDir t;
  const std::string path = t / "metrics.jsonl";
  {
    MetricsLog log(path, 0);
    for (int64_t s = 0; s < 6; ++s) {
      log.write(line(s));
      REQUIRE(lines_of(path).size() == static_cast<size_t>(s) + 1);
    }
    log.sync();
  }
  std::ofstream(path, std::ios::app) << R"({"step":6,"lo)";  // killed while writing
  {
    MetricsLog log(path, 4);
    for (int64_t s = 4; s < 8; ++s) log.write(line(s, 0.5));
  }
  const auto lines = lines_of(path);
  REQUIRE(lines.size() == 8);
  for (size_t i = 0; i < lines.size(); ++i) {
    CHECK(lines[i].at("step") == i);
    CHECK(lines[i].at("loss") == (i < 4 ? 0.1 : 0.5));
  }
  { MetricsLog log(path, 0); }
  CHECK(lines_of(path).empty());
  CHECK_THROWS_AS(MetricsLog(t / "none/metrics.jsonl", 0), Error);
}

TEST_CASE("a full disk under the log is exit 7 with the path") {
  const test::TempDir t;
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{500, 500};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      MetricsLog log(t / "metrics.jsonl", 0);
      for (int64_t s = 0; s < 100; ++s) log.write(line(s));
    } catch (const Error& e) {
      ::_exit(e.fact().find("/metrics.jsonl") != std::string::npos ? static_cast<int>(e.exit()) : 99);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(Exit::storage)));
}

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

TEST_CASE("a terminal gets one line redrawn seldom, anything else a line every few steps") {
  const auto run = [](Progress& p) {
    for (int64_t s = 1; s <= 250; ++s) {
      p.update(at(s, 0.01 * static_cast<double>(s)));
      if (s == 100) p.message("evaluated");
    }
  };
  const std::string bar = printed(true, 50, run);
  CHECK(std::count(bar.begin(), bar.end(), '\n') == 2);  // the message's and the last
  const auto drawn = std::count(bar.begin(), bar.end(), '#') > 0 ? std::count(bar.begin(), bar.end(), '%') : 0;
  CHECK(drawn > 20);
  CHECK(drawn < 40);
  CHECK(bar.find("evaluated\n") != std::string::npos);
  CHECK(bar.find("250/250") != std::string::npos);
  const std::string plain = printed(false, 50, run);
  CHECK(std::count(plain.begin(), plain.end(), '\n') == 6);
  CHECK(plain.find('\r') == std::string::npos);
  CHECK(plain.find("\x1b") == std::string::npos);
  const std::string cut = printed(false, 50, [](Progress& p) {
    for (int64_t s = 1; s <= 60; ++s) p.update(at(s, 1));
  });
  CHECK(cut.find("step 60/250") != std::string::npos);  // the last state of a stopped run
}
