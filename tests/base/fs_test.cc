// Folders, durable files, the folder lock, checksums, and information about the process. Crashes and signals are tested
// in child processes.
#include "base/fs.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <thread>

#include "base/checksum.h"
#include "base/file.h"
#include "base/sysinfo.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
namespace stdfs = std::filesystem;

namespace {
void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
std::string get(const std::string& path) {
  std::ifstream f(path);
  return {std::istreambuf_iterator<char>(f), {}};
}

// Runs f in a child process and returns its exit status.
int in_child(const std::function<int()>& f) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
}  // namespace

TEST_CASE("CRC-32C gives the values of RFC 3720, in any pieces") {
  const auto crc = [](const std::vector<uint8_t>& v) { return crc32c(v.data(), static_cast<int64_t>(v.size())); };
  std::vector<uint8_t> up(32), down(32);
  std::iota(up.begin(), up.end(), uint8_t(0));
  std::copy(up.rbegin(), up.rend(), down.begin());
  CHECK(crc(std::vector<uint8_t>(32, 0)) == "8a9136aa");
  CHECK(crc(std::vector<uint8_t>(32, 0xff)) == "62a8ab43");
  CHECK(crc(up) == "46dd794e");
  CHECK(crc(down) == "113fdb5c");
  CHECK(crc32c("123456789", 9) == "e3069283");
  CHECK(crc32c("", 0) == "00000000");
  for (int64_t cut = 0; cut <= 32; ++cut) {
    Crc32c c;
    c.update(up.data(), cut);
    c.update(up.data() + cut, 32 - cut);
    CHECK(c.hex() == "46dd794e");
  }
}

TEST_CASE("folders are made with parents, listed in order and removed without following links") {
  const TempDir t;
  ensure_dir(t / "a/b/c/");
  ensure_dir(t / "a/b/c");
  CHECK(is_dir(t / "a/b/c"));
  put(t / "a/z", "1");
  put(t / "a/k", "2");
  CHECK(list_dir(t / "a") == std::vector<std::string>{"b", "k", "z"});
  CHECK(list_dir(t / "none").empty());
  ensure_dir(t / "kept");
  put(t / "kept/file", "3");
  stdfs::create_directory_symlink(t / "kept", t / "a/link");
  remove_tree(t / "a");
  CHECK_FALSE(path_exists(t / "a"));
  CHECK(get(t / "kept/file") == "3");
  remove_tree(t / "a");
  put(t / "file", "");
  const Error e = error_of([&] { ensure_dir(t / "file/below"); });
  CHECK(e.exit() == Exit::storage);
  CHECK(e.fact().find("/file") != std::string::npos);
  CHECK(e.fact().find("Not a directory") != std::string::npos);
  CHECK(free_bytes(t.path.string()) > 0);
}

TEST_CASE("a folder takes a name at once, exchanging with one that bears it") {
  const TempDir t;
  ensure_dir(t / "new");
  put(t / "new/x", "new");
  replace_dir(t / "new", t / "name");
  CHECK(get(t / "name/x") == "new");
  CHECK_FALSE(path_exists(t / "new"));
  ensure_dir(t / "newer");
  put(t / "newer/x", "newer");
  replace_dir(t / "newer", t / "name");
  CHECK(get(t / "name/x") == "newer");
  CHECK(get(t / "newer/x") == "new");
}

TEST_CASE("a new file must be new, and one that does not fit says how much was needed and is free") {
  const TempDir t;
  {
    NewFile f(t / "x");
    f.write("abc", 3);
    f.write("def", 3);
    f.finish();
    CHECK(f.size() == 6);
  }
  CHECK(get(t / "x") == "abcdef");
  CHECK(error_of([&] { NewFile again(t / "x"); }).fact().find("File exists") != std::string::npos);
  CHECK(in_child([&] {
          std::signal(SIGXFSZ, SIG_IGN);
          const rlimit limit{1000, 1000};
          ::setrlimit(RLIMIT_FSIZE, &limit);
          try {
            NewFile f(t / "big", 123456);
            const std::vector<char> bytes(5000);
            f.write(bytes.data(), 5000);
          } catch (const Error& e) {
            const bool told = e.exit() == Exit::storage && e.fact().find("/big") != std::string::npos &&
                              e.fact().find("File too large") != std::string::npos &&
                              e.fact().find("123,456 bytes needed") != std::string::npos &&
                              e.fact().find("bytes free") != std::string::npos;
            return told ? 42 : 1;
          }
          return 2;
        }) == 42);
}

TEST_CASE("probing storage leaves nothing and refuses what cannot fit") {
  const TempDir t;
  probe_storage(t.path.string(), 100000);
  CHECK(list_dir(t.path.string()).empty());
  const Error e = error_of([&] { probe_storage(t.path.string(), int64_t{1} << 60); });
  CHECK(e.exit() == Exit::storage);
  CHECK(e.fact().find("bytes needed") != std::string::npos);
  CHECK(list_dir(t.path.string()).empty());
  CHECK(error_of([&] { probe_storage(t / "none", 1); }).exit() == Exit::storage);
}

TEST_CASE("the lock names its holder and ends with it, even when it is killed") {
  const TempDir t;
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const DirLock lock(t.path.string());
    [[maybe_unused]] const ssize_t n = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char c;
  REQUIRE(::read(ready[0], &c, 1) == 1);
  const Error e = error_of([&] { DirLock second(t.path.string()); });
  CHECK(e.exit() == Exit::locked);
  CHECK(e.id() == "E_LOCKED");
  CHECK(e.fact().find(cat("pid ", child, " on host ", host_name(), " since 20")) != std::string::npos);
  ::kill(child, SIGKILL);
  int status;
  ::waitpid(child, &status, 0);
  { const DirLock free_again(t.path.string()); }
  const DirLock and_again(t.path.string());
  CHECK(error_of([&] { DirLock twice(t.path.string()); }).exit() == Exit::locked);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("of many starts at once exactly one gets the folder") {
  const TempDir t;
  int done[2];
  REQUIRE(::pipe(done) == 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 50; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(done[1]);
      try {
        const DirLock lock(t.path.string());
        char c;  // read() waits until the parent closes the pipe after all other children failed
        [[maybe_unused]] const ssize_t n = ::read(done[0], &c, 1);
        ::_exit(0);
      } catch (const Error& e) {
        ::_exit(e.fact().find("pid ") != std::string::npos ? static_cast<int>(e.exit()) : 99);
      }
    }
    children.push_back(child);
  }
  ::close(done[0]);
  int refused = 0, status = 0;
  for (int i = 0; i < 49; ++i) {
    REQUIRE(::wait(&status) > 0);
    refused += WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(Exit::locked);
  }
  CHECK(refused == 49);
  ::close(done[1]);
  REQUIRE(::wait(&status) > 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("peak memory grows by what is touched, and is this process's own") {
  const int64_t before = peak_rss_bytes();
  CHECK(before > (int64_t{1} << 20));
  std::vector<char> block(size_t{96} << 20, 'x');
  CHECK(block[block.size() / 2] == 'x');
  CHECK(peak_rss_bytes() > (int64_t{96} << 20));
  CHECK(utc_timestamp().size() == 20);
  CHECK_FALSE(host_name().empty());
}

TEST_CASE("a file that cannot be finished leaves neither itself nor its temporary") {
  const TempDir t;
  put(t / "out", "old");
  { FileWriter given_up(t / "out"); }
  CHECK(list_dir(t.path.string()) == std::vector<std::string>{"out"});
  const int code = in_child([&] {
    const rlimit small{1000, 1000};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &small);
    try {
      FileWriter file(t / "out", 5000);
      const std::string piece(2500, 'x');
      file.write(piece);
      file.write(piece);
      file.commit();
    } catch (const Error& e) {
      const bool told = e.fact().find("'" + (t / "out") + "'") != std::string::npos &&
                        e.fact().find("5,000 bytes needed") != std::string::npos;
      return told ? static_cast<int>(e.exit()) : 99;
    }
    return 0;
  });
  CHECK(code == 7);
  CHECK(get(t / "out") == "old");
  CHECK(list_dir(t.path.string()) == std::vector<std::string>{"out"});
}

TEST_CASE("what a signal would leave behind is known") {
  const TempDir t;
  const int code = in_child([&]() -> int {
    const TemporaryPath folder(t / "aside");
    ensure_dir(t / "aside");
    FileWriter file(t / "aside/out");
    file.write("half");
    { const TemporaryPath kept(t / "kept"); }
    put(t / "kept", "x");
    remove_temporaries();
    ::_exit(3);
  });
  CHECK(code == 3);
  CHECK(list_dir(t.path.string()) == std::vector<std::string>{"kept"});
}

TEST_CASE("a thread does not complete what a signal has removed") {
  const TempDir t;
  const int code = in_child([&]() -> int {
    std::optional<TemporaryPath> folder(t / "aside");
    ensure_dir(t / "aside");
    remove_temporaries();
    std::thread completes([&] {
      folder.reset();
      put(t / "completed", "x");
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::_exit(3);
  });
  CHECK(code == 3);
  CHECK(list_dir(t.path.string()).empty());
}

TEST_CASE("the memory limit of a control group, of both versions, is the smallest on the way up") {
  const TempDir t;
  const auto group = [&](const std::string& path, const std::string& limit) {
    stdfs::create_directories(stdfs::path(t / path).parent_path());
    put(t / path, limit + "\n");
  };
  CHECK(cgroup_memory_limit(t.path.string()) == -1);
  group("proc/self/cgroup", "0::/jobs/mine");
  CHECK(cgroup_memory_limit(t.path.string()) == -1);
  group("sys/fs/cgroup/jobs/mine/memory.max", "max");
  CHECK(cgroup_memory_limit(t.path.string()) == -1);
  group("sys/fs/cgroup/jobs/memory.max", "2000000");
  CHECK(cgroup_memory_limit(t.path.string()) == 2000000);
  group("sys/fs/cgroup/jobs/mine/memory.max", "1000000");
  CHECK(cgroup_memory_limit(t.path.string()) == 1000000);
  group("proc/self/cgroup", "7:cpu:/x\n4:memory:/a/b\n0::/");
  CHECK(cgroup_memory_limit(t.path.string()) == -1);
  group("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  group("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "500000");
  CHECK(cgroup_memory_limit(t.path.string()) == 500000);
  CHECK(memory_limit_bytes() > 0);
  CHECK(available_memory_bytes() < memory_limit_bytes());
}

TEST_CASE("a limited address space counts as memory") {
  if (const std::string why = no_memory_limits(); !why.empty()) SKIP(why);
  CHECK(in_child([] {
          const rlimit l{int64_t{1} << 30, RLIM_INFINITY};
          ::setrlimit(RLIMIT_AS, &l);
          return memory_limit_bytes() == int64_t{1} << 30 && available_memory_bytes() < int64_t{1} << 30 ? 0 : 1;
        }) == 0);
}
