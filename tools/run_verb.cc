#include "tools/run_verb.h"

#include <iostream>

#include "base/error.h"
#include "run/prepare/device.h"
#include "tools/cli/config.h"
#include "tools/cli/help.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {

int run_verb(const cli::Options& opts) {
  const Console console(opts);
  for (const std::string& w : opts.warnings) console.log().warning(w);
  if (opts.str("device") == "cuda")  // before anything else is read: it may not be there
    choose_device(spec_of(opts), opts.str("dtype") == "fp64", console.log());
  switch (opts.verb) {
    case cli::Verb::help:
      std::cout << cli::help_text(opts.help_topic, opts.help_all);
      return 0;
    case cli::Verb::version:
      std::cout << cli::version_text();
      return 0;
    case cli::Verb::grad:
      return run_grad(opts, console);
    case cli::Verb::predict:
      return run_predict(opts, console);
    case cli::Verb::generate:
      return run_generate(opts, console);
    case cli::Verb::train:
      return run_train(opts, console);
    case cli::Verb::eval:
      return run_eval(opts, console);
    case cli::Verb::check:
      return run_check(opts, console);
    case cli::Verb::plan:
      return run_plan(opts, console);
    case cli::Verb::export_model:
      return run_export(opts, console);
    case cli::Verb::tokenize:
      return run_tokenize(opts);
    case cli::Verb::bench:
      return run_bench(opts, console);
    case cli::Verb::report:
      return run_report(opts);
    case cli::Verb::create:
      return run_create(opts, console);
    case cli::Verb::convert:
      return run_convert(opts, console);
  }
  bug("a verb without a body");
}

int run_command(const cli::Command& command) {
  const cli::Options& opts = command.options;
  const bool talks = cli::has(cli::flag_named("verbose").verbs, opts.verb);
  if (!command.line.empty() && !(talks && opts.flag("quiet"))) {
    std::cerr << command.line << '\n';
    if (talks && opts.flag("verbose")) std::cerr << cli::effective_config_json(opts) << '\n';
  }
  return run_verb(opts);
}

}  // namespace amp
