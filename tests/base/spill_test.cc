// Arrays and files that are larger than the memory limit for data.
#include "base/spill.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tests/errors.h"
#include "tests/in_memory.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

std::string memory_maps() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

std::string file_in(const TempDir& folder, size_t size) {
  std::ofstream out(folder / "data", std::ios::binary);
  for (size_t i = 0; i < size; ++i) out.put(static_cast<char>('a' + i % 26));
  return folder / "data";
}

}  // namespace

TEST_CASE("an array that outgrows the limit goes on in a temporary file", "[spill]") {
  const InMemoryLimit limit(4096);
  SpillVector<int64_t> small, large;
  for (int64_t i = 0; i < 100; ++i) small.push_back(i);
  CHECK(!small.in_file());
  std::vector<int64_t> want;
  for (int64_t i = 0; i < 500'000; ++i) {
    if (i % 1000 == 999) {
      large.push_back(large[0] + large.back());  // push_back() may move the elements that the sum reads
    } else {
      large.push_back(i * i);
    }
    want.push_back(i % 1000 == 999 ? want[0] + want.back() : i * i);
  }
  CHECK(large.in_file());
  CHECK(large.size() == want.size());
  CHECK(std::equal(want.begin(), want.end(), large.begin(), large.end()));
  SpillVector<int64_t> other = std::move(large);
  CHECK(large.empty());
  other.resize(10);
  other.append(small);
  other.resize(112, -7);
  CHECK(other[9] == 81);
  CHECK(other[10] == 0);
  CHECK(other[109] == 99);
  CHECK(other.back() == -7);
  CHECK(!small.in_file());
}

TEST_CASE("what arrays in memory give back others may take", "[spill]") {
  const InMemoryLimit limit(10'000);
  const int64_t before = in_memory_left();
  {
    SpillVector<char> a;
    a.resize(6000, 'x');
    CHECK(!a.in_file());
    CHECK(in_memory_left() <= before - 6000);
    SpillVector<char> b;
    b.resize(6000, 'y');
    CHECK(b.in_file());
  }
  CHECK(in_memory_left() == before);
  SpillVector<char> c;
  c.resize(6000, 'z');
  CHECK(!c.in_file());
}

TEST_CASE("a folder that takes no temporary file is refused", "[spill]") {
  const char* const was = std::getenv("TMPDIR");
  const std::string former = was ? was : "";
  ::setenv("TMPDIR", "/nowhere/at all", 1);
  const InMemoryLimit limit(16);
  expect_error(
      "E_SPILL", "'/nowhere/at all'",
      [] {
        SpillVector<int64_t> v;
        v.resize(100);
      },
      Exit::storage);
  if (was) {
    ::setenv("TMPDIR", former.c_str(), 1);
  } else {
    ::unsetenv("TMPDIR");
  }
}

TEST_CASE("a file larger than the limit is mapped, others are read", "[spill]") {
  const TempDir folder;
  const std::string path = file_in(folder, 100'000);
  const auto same = [&](const FileBytes& got) {
    REQUIRE(got.size == 100'000);
    for (int64_t i = 0; i < got.size; i += 997) CHECK(got.bytes.get()[i] == 'a' + i % 26);
  };
  const FileBytes read = read_or_map(path);
  same(read);
  CHECK(memory_maps().find(path) == std::string::npos);
  {
    const InMemoryLimit limit(1000);
    const FileBytes mapped = read_or_map(path);
    same(mapped);
    CHECK(memory_maps().find(path) != std::string::npos);
  }
  CHECK(memory_maps().find(path) == std::string::npos);
}

TEST_CASE("a mapped file that becomes shorter ends the process with the exit code of bad data", "[spill]") {
  const TempDir folder;
  const std::string path = file_in(folder, 100'000);
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(pipe_ends[1], STDERR_FILENO);
    ::close(pipe_ends[0]);
    const InMemoryLimit limit(1000);
    const FileBytes mapped = read_or_map(path);
    if (::truncate(path.c_str(), 10) != 0) ::_exit(98);
    const volatile uint8_t* const bytes = mapped.bytes.get();
    ::_exit(bytes[90'000] == 'a' ? 97 : 96);
  }
  ::close(pipe_ends[1]);
  std::string said;
  char buffer[512];
  for (ssize_t n; (n = ::read(pipe_ends[0], buffer, sizeof buffer)) > 0;) said.append(buffer, static_cast<size_t>(n));
  ::close(pipe_ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == static_cast<int>(Exit::data));
  REQUIRE(said.ends_with('\n'));
  const size_t last = said.rfind('\n', said.size() - 2) + 1;  // the last line of stderr
  const auto line = nlohmann::json::parse(said.substr(last));
  CHECK(line["id"] == "E_DATA_FILE");
  CHECK(line["exit"] == WEXITSTATUS(status));
}
