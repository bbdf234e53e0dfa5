#include "tools/run_verb.h"

#include <iostream>

#include "base/error.h"
#include "tools/choose_device.h"
#include "tools/cli/help.h"
#include "tools/verbs.h"

namespace amp {

int run_verb(const cli::Options& opts) {
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
  }
  bug("a verb without a body");
}

}  // namespace amp
