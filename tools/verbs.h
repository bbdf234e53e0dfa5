// The registry of verbs (commands of the program). Each verb has one file, whose function converts flags to a
// RunSpec, calls run/ and prints the result. docs/adding_a_verb.md has the steps to add a verb.
#pragma once

#include "tools/cli/options.h"
#include "tools/console.h"

namespace amp {

// Runs a verb. Returns the exit code of the process. Throws an Error for a failure that the program reports.
using VerbBody = int (*)(const cli::Options& opts, const Console& console);

// Registers the function of a verb. Use at namespace scope of the verb's file:
// `static const RegisterVerb eval_verb(cli::Verb::eval, run_eval);`
struct RegisterVerb {
  RegisterVerb(cli::Verb verb, VerbBody body);
};

VerbBody body_of(cli::Verb verb);  // returns null if no file has registered the verb

int run_train(const cli::Options& opts, const Console& console);

}  // namespace amp
