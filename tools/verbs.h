// The verbs of the command line, one file each. A verb turns flags into a RunSpec, calls run/, and prints the result.
//
// Adding a verb: an enumerator and a row in tools/cli/flags.{h,cc}, a file verb_NAME.cc that registers its body, and
// rows in tools/cli/own_flags.cc for flags of its own.
#pragma once

#include "tools/cli/options.h"
#include "tools/console.h"

namespace amp {

// Returns the exit code of the process, or throws an Error.
using VerbBody = int (*)(const cli::Options& opts, const Console& console);

// static const RegisterVerb eval_verb(cli::Verb::eval, run_eval);
struct RegisterVerb {
  RegisterVerb(cli::Verb verb, VerbBody body);
};

VerbBody body_of(cli::Verb verb);  // null if no file registered one

int run_train(const cli::Options& opts, const Console& console);

}  // namespace amp
