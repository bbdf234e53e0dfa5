// The program runs with limited address space (ulimit -v, containers): it reserves only what a run needs. The limit
// applies to a process from its start, so the test starts itself again.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <filesystem>

#include "backend/arena.h"
#include "tests/cli/cli_helper.h"
#include "tests/support.h"
#include "tools/run_verb.h"

using namespace amp;
namespace fs = std::filesystem;

// A test case that only the test below starts.
TEST_CASE("a small training", "[.limited]") {
  const std::string entry = test::test_data("zoo/lenet_relu_dyn18");
  const test::TempDir folder;
  const int code = run_verb(
      ::parse({entry + "/model.onnx", "--train", entry + "/batch.safetensors", "--loss", "cross_entropy", "--device",
               "cpu", "--threads", "2", "--max_steps", "2", "--use_bf16", "--output_dir", folder / "run"}));
  CHECK(code == 0);
}

TEST_CASE("training runs in a limited address space") {
  if (const std::string why = test::no_memory_limits(); !why.empty()) SKIP(why);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit space{rlim_t{600} << 20, rlim_t{600} << 20};
    ::setrlimit(RLIMIT_AS, &space);
    ::execl("/proc/self/exe", "test_tools", "[.limited]", static_cast<char*>(nullptr));
    ::_exit(99);
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
