// export: the weights of a run's checkpoints as a model, or a model file written again in another precision.
#include <iostream>

#include "base/fs.h"
#include "run/export.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {

int run_export(const cli::Options& opts, const Console& console) {
  const std::string model = opts.str("model"), out = opts.str("out"), which = opts.str("export_weights");
  const bool raw = opts.flag("export_raw_rows");
  if (raw && opts.str("export_precision") != "fp32")
    fail(Exit::usage, "E_USAGE", "--export_raw_rows true is for --export_precision fp32", "leave one of them out");
  if (is_dir(model)) {
    const ExportedRun run = export_run(model, which, opts.str("export_precision"), out, console.log());
    std::cerr << "exported the " << which << " weights of step " << run.step;
    if (run.difference) std::cerr << "; outputs differ from the trained graph's by at most " << *run.difference;
    std::cerr << '\n';
    if (raw) {
      RunSpec written = spec_of(opts);
      written.model = out;
      written.export_precision = "fp32";  // as it is
      export_file(written, out, console.log());
    }
  } else {
    if (opts.was_set("export_weights") && which != "last") {
      fail(Exit::usage, "E_USAGE", cat("--export_weights ", which, ": a model file holds one set of weights"),
           "name the run's folder instead of a file");
    }
    export_file(spec_of(opts), out, console.log());
  }
  std::cout << out << '\n';
  return 0;
}

}  // namespace amp
