// The verbs of the command line, one file each. Each returns the process's exit code or throws an Error. They turn
// flags into what run/ takes, and print what it gives back.
#pragma once

#include "tools/cli/options.h"
#include "tools/console.h"

namespace amp {

int run_train(const cli::Options& opts, const Console& console);
int run_eval(const cli::Options& opts, const Console& console);
int run_predict(const cli::Options& opts, const Console& console);
int run_generate(const cli::Options& opts, const Console& console);
int run_check(const cli::Options& opts, const Console& console);
int run_plan(const cli::Options& opts, const Console& console);
int run_grad(const cli::Options& opts, const Console& console);
int run_export(const cli::Options& opts, const Console& console);
int run_tokenize(const cli::Options& opts);
int run_bench(const cli::Options& opts, const Console& console);
int run_create(const cli::Options& opts, const Console& console);
int run_report(const cli::Options& opts);
int run_convert(const cli::Options& opts, const Console& console);

}  // namespace amp
