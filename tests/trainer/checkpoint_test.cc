// Checkpoints: round trip, detection of every kind of damage, rotation, kills and full disks during a save.
#include "trainer/loop/checkpoint.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/fs.h"
#include "tests/support.h"

using namespace amp;
namespace stdfs = std::filesystem;

namespace {
std::string get(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}
void put(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

Checkpoint sample(int64_t step, int64_t elements = 6) {
  Checkpoint c;
  c.step = step;
  std::vector<float> w(static_cast<size_t>(elements));
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(step) + 0.1f * static_cast<float>(i % 1000);
  c.tensors["param/a.weight"] = HostTensor::of<float>({elements / 2, 2}, w);
  c.tensors["m/a.weight"] = HostTensor::of<double>({2}, {1.0 / 3, -0.0});
  c.tensors["counter"] = HostTensor::scalar<int64_t>(step);
  c.state = R"({"scaler":{"scale":256.0,"tracker":17},"sampler":{"seed":18446744073709551615,"cursor":96},"lr":1e-05})";
  c.hashes = {{"model", "ab12"}, {"config", "cd34"}};
  return c;
}

void check_equal(const Checkpoint& a, const Checkpoint& b) {
  CHECK(a.step == b.step);
  CHECK(nlohmann::json::parse(a.state) == nlohmann::json::parse(b.state));
  CHECK(a.hashes == b.hashes);
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (const auto& [name, t] : a.tensors) {
    const HostTensor& u = b.tensors.at(name);
    CHECK(t.dtype() == u.dtype());
    CHECK(t.dims() == u.dims());
    CHECK(std::memcmp(t.data(), u.data(), static_cast<size_t>(t.bytes())) == 0);
  }
}

// Returns the error's id if the checkpoint is refused, "" if it loads. load and verify must agree.
std::string refusal(const std::string& path) {
  std::string loaded, verified;
  try {
    load_checkpoint(path);
  } catch (const Error& e) {
    loaded = e.exit() == Exit::checkpoint ? e.id() : "exit " + std::to_string(static_cast<int>(e.exit()));
  }
  try {
    verify_checkpoint(path);
  } catch (const Error& e) {
    verified = e.id();
  }
  CHECK(loaded == verified);
  return loaded;
}
}  // namespace

TEST_CASE("a checkpoint comes back as it was, bit for bit") {
  const test::TempDir t;
  const Checkpoint c = sample(12);
  const std::string path = save_checkpoint(t / "checkpoints", c);
  CHECK(path == t / "checkpoints/checkpoint-12");
  check_equal(c, load_checkpoint(path));
  verify_checkpoint(path + "/");
  CHECK(list_dir(path) == std::vector<std::string>{"manifest.json", "state.safetensors"});
  const auto manifest = nlohmann::json::parse(get(path + "/manifest.json"));
  CHECK(manifest.at("version") == 1);
  CHECK(manifest.at("state").at("scaler").at("tracker") == 17);
  CHECK(manifest.at("files").at(0).at("bytes") == get(path + "/state.safetensors").size());
}

TEST_CASE("every truncation and every flipped bit of a checkpoint is found") {
  const test::TempDir t;
  const std::string path = save_checkpoint(t.path.string(), sample(3));
  REQUIRE(refusal(path).empty());
  int64_t tried = 0;
  for (const char* name : {"state.safetensors", "manifest.json"}) {
    const std::string file = path + "/" + name, whole = get(file);
    REQUIRE(whole.size() > 100);
    // The file is changed in place, because thousands of replacements would each be flushed.
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      std::fstream f(file, std::ios::binary | std::ios::in | std::ios::out);
      const char good = whole[bit / 8];
      f.seekp(static_cast<std::streamoff>(bit / 8)).put(static_cast<char>(good ^ (1 << (bit % 8)))).flush();
      INFO(name << " with bit " << bit << " flipped");
      REQUIRE_FALSE(refusal(path).empty());
      f.seekp(static_cast<std::streamoff>(bit / 8)).put(good).flush();
      ++tried;
    }
    REQUIRE(refusal(path).empty());
    for (size_t n = whole.size(); n-- > 0;) {
      stdfs::resize_file(file, n);
      INFO(name << " cut to " << n << " bytes");
      REQUIRE_FALSE(refusal(path).empty());
      ++tried;
    }
    put(file, whole + '\0');
    CHECK_FALSE(refusal(path).empty());
    stdfs::remove(file);
    CHECK_FALSE(refusal(path).empty());
    put(file, whole);
    CHECK(refusal(path).empty());
  }
  CHECK(tried > 5000);
}

TEST_CASE("a refusal says what is wrong with which checkpoint") {
  const test::TempDir t;
  const std::string path = save_checkpoint(t.path.string(), sample(3));
  const std::string state = path + "/state.safetensors", manifest = path + "/manifest.json";
  const std::string bytes = get(state);
  put(state, bytes.substr(0, 50));
  CHECK(refusal(path) == "E_CKPT_TORN");
  try {
    load_checkpoint(path);
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find(cat("has 50 bytes, ", bytes.size(), " were written")) != std::string::npos);
    CHECK(std::string(e.what()).find(path) != std::string::npos);
  }
  std::string flipped = bytes;
  flipped[60] ^= 1;
  put(state, flipped);
  CHECK(refusal(path) == "E_CKPT_CHECKSUM");
  put(state, bytes);
  put(manifest, "{}");
  CHECK(refusal(path) == "E_CKPT_MANIFEST");
  stdfs::remove(manifest);
  CHECK(refusal(path) == "E_CKPT_MISSING");
  CHECK(refusal(t / "checkpoint-99") == "E_CKPT_MISSING");
}

TEST_CASE("the newest usable checkpoint is found, and why newer ones were not taken") {
  const test::TempDir t;
  CHECK(find_latest(t / "none").path.empty());
  SaveOptions keep_all;
  keep_all.save_total_limit = 0;
  for (const int64_t step : {2, 9, 10, 100}) save_checkpoint(t.path.string(), sample(step), keep_all);
  ensure_dir(t / "checkpoint-200.tmp-1");  // a writer died
  ensure_dir(t / "checkpoint-0300");       // not a name that this program writes
  ensure_dir(t / "checkpoint-");
  ensure_dir(t / "checkpoint-400");  // empty: its files were never written
  put(t / "checkpoint-100/state.safetensors", "short");
  const Latest l = find_latest(t.path.string());
  CHECK(l.path == t / "checkpoint-10");
  check_equal(l.checkpoint, sample(10));
  REQUIRE(l.skipped.size() == 2);
  CHECK(l.skipped[0].find("checkpoint-400: ") != std::string::npos);
  CHECK(l.skipped[0].find("manifest") != std::string::npos);
  CHECK(l.skipped[1].find("has 5 bytes") != std::string::npos);
  clean_checkpoints(t.path.string());
  CHECK_FALSE(path_exists(t / "checkpoint-200.tmp-1"));
  CHECK(path_exists(t / "checkpoint-0300"));
  CHECK(list_checkpoints(t.path.string()) == std::vector<int64_t>{2, 9, 10, 100, 400});
}

TEST_CASE("rotation keeps the newest and the best, and a step written again replaces itself") {
  const test::TempDir t;
  SaveOptions o;
  for (int64_t step = 1; step <= 5; ++step) {
    o.best_step = step >= 2 ? 2 : step;
    save_checkpoint(t.path.string(), sample(step), o);
  }
  CHECK(list_checkpoints(t.path.string()) == std::vector<int64_t>{2, 5});
  o.save_total_limit = 1;
  save_checkpoint(t.path.string(), sample(6), o);
  CHECK(list_checkpoints(t.path.string()) == std::vector<int64_t>{2, 6});
  save_checkpoint(t.path.string(), sample(6, 20), o);
  check_equal(find_latest(t.path.string()).checkpoint, sample(6, 20));
  // The run went back to step 3, so later checkpoints are obsolete.
  o.best_step = -1;
  save_checkpoint(t.path.string(), sample(3), o);
  CHECK(list_checkpoints(t.path.string()) == std::vector<int64_t>{3});
  CHECK(list_dir(t.path.string()) == std::vector<std::string>{"checkpoint-3"});
}

TEST_CASE("a save that runs out of room at any byte leaves the earlier checkpoint and exits 7") {
  const test::TempDir t;
  SaveOptions o;
  o.save_total_limit = 1;
  save_checkpoint(t.path.string(), sample(1), o);
  const auto largest = static_cast<rlim_t>(get(t / "checkpoint-1/state.safetensors").size());
  for (rlim_t limit = 0; limit < largest; limit += 37) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit r{limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &r);
      try {
        save_checkpoint(t.path.string(), sample(2), o);
      } catch (const Error& e) {
        const bool told = e.fact().find("checkpoint-2") != std::string::npos &&
                          e.fact().find("File too large") != std::string::npos &&
                          e.fact().find("bytes needed") != std::string::npos;
        ::_exit(told ? static_cast<int>(e.exit()) : 99);
      }
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    INFO("file size limit " << limit);
    REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(Exit::storage)));
    REQUIRE(list_dir(t.path.string()) == std::vector<std::string>{"checkpoint-1"});
    REQUIRE(find_latest(t.path.string()).skipped.empty());
  }
}

TEST_CASE("a writer killed at any time leaves a usable checkpoint and no half-visible one") {
  const test::TempDir t;
  std::mt19937 random(11);
  save_checkpoint(t.path.string(), sample(0, 200000));
  int64_t last = 0;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int64_t step = last + 1;; ++step) save_checkpoint(t.path.string(), sample(step, 200000));
    }
    ::usleep(std::uniform_int_distribution<useconds_t>(1000, 60000)(random));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    const Latest l = find_latest(t.path.string());
    REQUIRE_FALSE(l.path.empty());
    REQUIRE(l.skipped.empty());
    REQUIRE(l.checkpoint.step >= last);
    for (const int64_t step : list_checkpoints(t.path.string()))
      REQUIRE_NOTHROW(verify_checkpoint(checkpoint_path(t.path.string(), step)));
    check_equal(l.checkpoint, sample(l.checkpoint.step, 200000));
    last = l.checkpoint.step;
    clean_checkpoints(t.path.string());
    REQUIRE(list_dir(t.path.string()).size() == list_checkpoints(t.path.string()).size());
  }
  CHECK(last > 0);
}

TEST_CASE("a checkpoint of another run is refused field by field") {
  CHECK_NOTHROW(require_same({{"model", "1"}}, {{"model", "1"}}));
  try {
    require_same({{"model", "1"}, {"config", "5"}, {"old", "x"}}, {{"model", "1"}, {"config", "6"}, {"data", "7"}});
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::checkpoint);
    CHECK(e.id() == "E_CKPT_MISMATCH");
    CHECK(e.fact().find("config was 5, is 6; data was absent, is 7; old was x, is absent") != std::string::npos);
  }
}
