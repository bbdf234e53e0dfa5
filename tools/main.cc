// onnx-amp-finetune: fine-tunes ONNX models in mixed precision. This file: from argv to a verb.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "tools/cli/error_line.h"
#include "tools/cli/options.h"
#include "tools/run_verb.h"

namespace {

// GNU's OpenMP reads its settings before main, and by default an idle thread spins for milliseconds: on a machine that
// others use too, it then spins in the way of the thread that it waits for. So the program starts itself once more with
// a short spin.
void shorten_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return;
  setenv("GOMP_SPINCOUNT", "1000", 1);
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) execv(self.c_str(), argv);  // returns only if it could not: go on as it is
}

}  // namespace

int main(int argc, char** argv) {
  using namespace amp;
  shorten_spinning(argv);
  return cli::guarded(std::cerr, [&] { return run_verb(cli::parse_command_line(argc, argv, environ)); });
}
