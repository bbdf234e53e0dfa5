// The verbs of the command line, one file each. Each returns the process's exit code or throws an Error.
#pragma once

#include "tools/cli/options.h"

namespace amp {

int run_train(const cli::Options& opts);
int run_eval(const cli::Options& opts);
int run_predict(const cli::Options& opts);
int run_check(const cli::Options& opts);
int run_plan(const cli::Options& opts);
int calibrate_run(cli::Options opts);  // plan --calibrate: a run's preparations, then its plan
int run_grad(const cli::Options& opts);
int run_export(const cli::Options& opts);
// trained: a run's options; its newest checkpoint to `out`
int export_run(const cli::Options& trained, const std::string& out);
int run_tokenize(const cli::Options& opts);

}  // namespace amp
