// onnx-amp-finetune: fine-tunes ONNX models in mixed precision. This file: from argv to a verb.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "tools/cli/error_line.h"
#include "tools/cli/help.h"
#include "tools/cli/options.h"
#include "tools/device.h"
#include "tools/verbs.h"

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
  return cli::guarded(std::cerr, [&] {
    const cli::Options opts = cli::parse_command_line(argc, argv, environ);
    for (const std::string& w : opts.warnings) std::cerr << "warning: " << w << '\n';
    if (opts.str("device") == "cuda") choose_device(opts);  // before anything else is read: it may not be there
    switch (opts.verb) {
      case cli::Verb::help:
        std::cout << cli::help_text(opts.help_topic, opts.help_all);
        return 0;
      case cli::Verb::version:
        std::cout << cli::version_text();
        return 0;
      case cli::Verb::grad:
        return run_grad(opts);
      case cli::Verb::predict:
        return run_predict(opts);
      case cli::Verb::train:
        return run_train(opts);
      case cli::Verb::eval:
        return run_eval(opts);
      case cli::Verb::check:
        return run_check(opts);
      case cli::Verb::plan:
        return run_plan(opts);
      case cli::Verb::export_model:
        return run_export(opts);
      case cli::Verb::tokenize:
        return run_tokenize(opts);
      default:
        break;
    }
    fail(Exit::usage, "E_USAGE", "this verb is not built yet");
  });
}
