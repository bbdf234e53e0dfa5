// The step log, metrics.jsonl: fields and exact numbers of a line, resumed runs, and a full disk.
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
#include "trainer/loop/metrics_log.h"

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
}  // namespace

TEST_CASE("a step's line holds every field, all bits of the numbers, and null for what is not finite") {
  StepLine l = line(7, 0.1 + 0.2);
  l.lr = 1e-5;
  l.loss_scale = 65536;
  l.grad_norm = std::numeric_limits<double>::infinity();
  l.samples_per_s = std::nan("");
  l.skipped = true;
  l.memory = int64_t{5} << 32;
  l.data_seconds = 0.25;
  const json j = json::parse(to_json(l));
  CHECK(j.at("step") == 7);
  CHECK(j.at("loss").get<double>() == 0.1 + 0.2);
  CHECK(j.at("lr").get<double>() == 1e-5);
  CHECK(j.at("loss_scale") == 65536.0);
  CHECK(j.at("grad_norm").is_null());
  CHECK(j.at("samples_per_s").is_null());
  CHECK(j.at("skipped") == true);
  CHECK(j.at("tokens_per_s") == 0);
  CHECK(j.at("data_seconds") == 0.25);
  CHECK(j.at("epoch") == 0);
  CHECK(j.at("memory") == (int64_t{5} << 32));
  CHECK(json::parse(JsonObject().add("a\"\n", "b\\\x01\xff").str()).at("a\"\n") == "b\\\x01\xef\xbf\xbd");
}

TEST_CASE("lines are in the file at once, and a resumed run has one line a step") {
  const test::TempDir t;
  const std::string path = t / "metrics.jsonl";
  {
    MetricsLog log(path, 0);
    for (int64_t s = 1; s <= 6; ++s) {
      log.write(line(s));
      REQUIRE(lines_of(path).size() == static_cast<size_t>(s));
    }
    log.sync();
  }
  std::ofstream(path, std::ios::app) << R"({"step":7,"lo)";  // a line that is cut off, as if the run had been killed
  {
    MetricsLog log(path, 4);
    for (int64_t s = 5; s <= 8; ++s) log.write(line(s, 0.5));
  }
  const auto lines = lines_of(path);
  REQUIRE(lines.size() == 8);
  for (size_t i = 0; i < lines.size(); ++i) {
    CHECK(lines[i].at("step") == i + 1);
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
