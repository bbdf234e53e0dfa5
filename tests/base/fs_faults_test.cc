// Files and folders where system calls are interrupted, shortened, refused or counted.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/threads.h"
#include "tests/errors.h"
#include "tests/faults.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
namespace stdfs = std::filesystem;

namespace {
void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
std::string get(const std::string& path) {
  std::ifstream f(path);
  return {std::istreambuf_iterator<char>(f), {}};
}
std::string canonical(const std::string& path) { return stdfs::canonical(path).string(); }
}  // namespace

TEST_CASE("interrupted and short calls are repeated") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  const TempDir t;
  const std::string text(1000, 'x'), path = t / "file";
  int calls = 0, interrupted = 0;
  {
    // Every call is interrupted once, and every transfer has at most 3 bytes.
    const Faults faults([&](const FileCall& c) {
      if (c.name.starts_with("rename") || c.path.find(t.path.filename().string()) == std::string::npos) return kPass;
      const bool interrupt = ++calls % 2 == 1;
      interrupted += interrupt;
      return interrupt ? EINTR : c.name == "fsync" ? kPass : kShort;
    });
    FileWriter file(path);
    file.write(text);
    file.commit();
    CHECK(read_file(path).text() == text);
    CHECK(sum_of_file(path).crc32c == crc32c(text.data(), 1000));
    CHECK(file_sha256(path) == sha256(text.data(), text.size()));
    probe_storage(t.path.string(), 100);
    const DirLock lock(t.path.string());
  }
  CHECK(interrupted > 1000);
  CHECK(get(path) == text);
  CHECK_THAT(get(t / ".lock"), ContainsSubstring("pid ") && ContainsSubstring(" since "));
}

TEST_CASE("a file that cannot be read has no fingerprint") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  const TempDir t;
  put(t / "data.csv", "a,b\n");
  CHECK(fingerprint(t / "data.csv") == "4 bytes of CRC-32C " + crc32c("a,b\n", 4));
  const Faults faults([](const FileCall& c) { return c.name == "read" && c.path.ends_with("data.csv") ? EIO : kPass; });
  expect_error("E_DATA_FILE", "data.csv': Input/output error", [&] { fingerprint(t / "data.csv"); });
  expect_error("E_DATA_FILE", "none.csv': No such file", [&] { fingerprint(t / "none.csv"); });
}

TEST_CASE("new, renamed and removed entries are synced into their folder") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  const TempDir t;
  std::vector<std::string> synced;
  const auto synced_by = [&](const auto& f) {
    synced.clear();
    const Faults faults([&](const FileCall& c) {
      if (c.name == "fsync") synced.push_back(c.path);
      return kPass;
    });
    f();
    return synced;
  };
  const std::string root = canonical(t.path.string());
  using Paths = std::vector<std::string>;
  CHECK(synced_by([&] { ensure_dir(t / "a/b"); }) == Paths{root, root + "/a"});
  CHECK(synced_by([&] { ensure_dir(t / "a/b"); }).empty());
  CHECK(synced_by([&] { move_path(t / "a/b", t / "c"); }) == Paths{root});
  CHECK(synced_by([&] { remove_tree(t / "c"); }) == Paths{root});
  CHECK(synced_by([&] { remove_tree(t / "c"); }).empty());
  const Paths written = synced_by([&] {
    FileWriter file(t / "a/file");
    file.commit();
  });
  REQUIRE(written.size() == 2);
  CHECK(written[0].starts_with(root + "/a/file.tmp-"));  // the name before the rename
  CHECK(written[1] == root + "/a");
}

TEST_CASE("a folder that cannot be renamed is copied") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  const TempDir t;
  stdfs::create_directories(t / "lower/deep");
  put(t / "lower/deep/file", "content");
  put(t / "lower/other", std::string(3 << 20, 'y'));
  const std::string before = crc32c(get(t / "lower/other").data(), 3 << 20);
  const Faults faults([&](const FileCall& c) { return c.name == "rename" && c.path == t / "lower" ? EXDEV : kPass; });
  move_path(t / "lower", t / "upper");
  CHECK(list_dir(t.path.string()) == std::vector<std::string>{"upper"});
  CHECK(get(t / "upper/deep/file") == "content");
  CHECK(crc32c(get(t / "upper/other").data(), 3 << 20) == before);
}

TEST_CASE("a folder is replaced where names cannot be exchanged, and where the old one cannot be renamed") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  for (const int code : {EINVAL, ENOSYS, EXDEV}) {
    const TempDir t;
    stdfs::create_directory(t / "new");
    put(t / "new/x", "new");
    stdfs::create_directory(t / "name");
    put(t / "name/x", "old");
    const Faults faults([&](const FileCall& c) {
      return c.name == "renameat2" || (code == EXDEV && c.name == "rename" && c.path == t / "name") ? code : kPass;
    });
    replace_dir(t / "new", t / "name");
    CHECK(get(t / "name/x") == "new");
    const std::vector<std::string> left = list_dir(t.path.string());
    CHECK(left == (code == EXDEV ? std::vector<std::string>{"name"} : std::vector<std::string>{"name", "new"}));
  }
}

TEST_CASE("a replacement that fails halfway puts the old folder back") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  const TempDir t;
  for (const char* name : {"new", "name"}) {
    stdfs::create_directory(t / name);
    put(t / name + std::string("/x"), name);
  }
  int renames = 0;
  const Faults faults([&](const FileCall& c) {
    if (c.name == "renameat2") return EINVAL;
    // The third rename fails: that of "new" to "name", after "name" was renamed to "new-old".
    return c.name == "rename" && ++renames == 3 ? EIO : kPass;
  });
  CHECK(error_of([&] { replace_dir(t / "new", t / "name"); }).exit() == Exit::storage);
  CHECK(get(t / "name/x") == "name");
  CHECK(get(t / "new/x") == "new");
}

TEST_CASE("a lock's holder notices that its folder was removed, renamed or replaced") {
  const TempDir t;
  for (const char* what : {"removed", "renamed", "replaced"}) {
    ensure_dir(t / "run");
    const DirLock lock(t / "run");
    CHECK_NOTHROW(lock.require_present());
    stdfs::rename(t / "run", t / what);
    if (what == std::string("removed")) stdfs::remove_all(t / what);
    if (what == std::string("replaced")) {
      ensure_dir(t / "run");
      put(t / "run/.lock", "");
    }
    const Error e = error_of([&] { lock.require_present(); });
    CHECK(e.exit() == Exit::storage);
    CHECK_THAT(e.hint(), ContainsSubstring("`resume` auto"));
    remove_tree(t / "run");
  }
}

TEST_CASE("a limit of memory shows in the number of threads that can be started") {
  if (const std::string why = no_memory_limits(); !why.empty()) SKIP(why);
  CHECK(startable_threads(0) == 0);
  CHECK(startable_threads(5) == 5);
  const pid_t child = ::fork();
  if (child == 0) {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    // A thread's stack has at least 2 MiB, 8 MiB by default. So there is space for one or two stacks.
    const rlimit r{static_cast<rlim_t>(pages * ::getpagesize() + (5 << 20)), RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &r);
    ::_exit(startable_threads(50));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) < 50);
}

TEST_CASE("ensure_dir removes the new folder if it cannot sync the parent folder") {
  if (!Faults::available()) SKIP("sanitizers replace the same functions");
  const TempDir t;
  const Faults faults(
      [&](const FileCall& c) { return c.name == "fsync" && c.path == canonical(t.path) ? EIO : kPass; });
  expect_error(
      "E_WRITE", "cannot make folder durable", [&] { ensure_dir(t / "new"); }, Exit::storage);
  CHECK_FALSE(path_exists(t / "new"));
}
