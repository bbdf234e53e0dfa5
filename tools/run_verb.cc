#include "tools/run_verb.h"

#include <iostream>
#include <map>

#include "base/error.h"
#include "base/message.h"
#include "run/prepare/device.h"
#include "tools/cli/completions.h"
#include "tools/cli/config.h"
#include "tools/cli/config_paths.h"
#include "tools/cli/help.h"
#include "tools/cli/terminal.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {

static std::map<cli::Verb, VerbBody>& bodies() {
  static std::map<cli::Verb, VerbBody> table;
  return table;
}

RegisterVerb::RegisterVerb(cli::Verb verb, VerbBody body) { bodies()[verb] = body; }

VerbBody body_of(cli::Verb verb) {
  const auto it = bodies().find(verb);
  return it == bodies().end() ? nullptr : it->second;
}

int run_verb(const cli::Options& opts) {
  const Console console(opts);
  for (const std::string& w : opts.warnings) console.log().warning(w);
  if (opts.str("device") == "cuda")  // opens the GPU first, because there may be none
    choose_device(spec_of(opts).device, spec_of(opts).distribution, opts.str("dtype") == "fp64", console.log());
  if (opts.verb == cli::Verb::help && !opts.print.empty()) {
    std::cout << (opts.print == "man" ? cli::man_text() : cli::completion_text(opts.print));
    return 0;
  }
  if (opts.verb == cli::Verb::help) {
    std::cout << cli::help_text(opts.help_topic, opts.help_all);
    return 0;
  }
  if (opts.verb == cli::Verb::version) {
    std::cout << cli::version_text();
    return 0;
  }
  const VerbBody body = body_of(opts.verb);
  // For verbs that accept --junit, the verb makes this check, so that the summary contains the error.
  if (!cli::has(cli::flag_named("junit").verbs, opts.verb)) cli::require_files_of_config(opts);
  if (!body) bug(cat("the verb ", cli::info(opts.verb).name, " has no body"));
  return body(opts, console);
}

int run_command(const cli::Command& command) {
  const cli::Options& opts = command.options;
  const bool talks = cli::has(cli::flag_named("verbose").verbs, opts.verb);
  cli::apply_log_format(opts.str("log_format"));
  if (!command.line.empty() && !(talks && opts.flag("quiet"))) {
    print_message(Level::info, command.line);
    if (talks && opts.flag("verbose")) print_message(Level::info, cli::effective_config_json(opts));
  }
  return run_verb(opts);
}

}  // namespace amp
