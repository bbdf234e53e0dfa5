// report: a page of one run, or of several side by side.
#include <iostream>

#include "base/file.h"
#include "run/report_page.h"
#include "tools/verbs.h"

namespace amp {

int run_report(const cli::Options& opts) {
  if (opts.positional.empty())
    fail(Exit::usage, "E_USAGE", "'report' has no run", "name the folder of a run, or several to compare");
  FileWriter file(opts.str("out"));
  file.write(report_page(opts.positional));
  file.commit();
  std::cout << report_table(opts.positional) << opts.str("out") << '\n';
  return 0;
}

}  // namespace amp
