// Verb report: writes an HTML page of one run or of several, or their metrics as CSV.
#include <iostream>

#include "base/file.h"
#include "base/terminal_text.h"
#include "run/report/metrics_csv.h"
#include "run/report/report_page.h"
#include "tools/verbs.h"

namespace amp {

static int run_report(const cli::Options& opts, const Console&) {
  if (opts.positional.empty())
    fail(Exit::usage, "E_USAGE", "'report' has no run", "name the folder of a run, or several to compare");
  const std::string& out = opts.str("out");
  const std::string text = out.ends_with(".csv") ? metrics_csv(opts.positional) : report_page(opts.positional);
  FileWriter file(out);
  file.write(text);
  file.commit();
  std::cout << printable_lines(report_table(opts.positional)) << out << '\n';
  return 0;
}

static const RegisterVerb report_verb(cli::Verb::report, run_report);

}  // namespace amp
