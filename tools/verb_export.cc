// export: a model file, a run's model.onnx say, written again in another precision.
#include <iostream>

#include "base/fs.h"
#include "importer/export.h"
#include "tools/common.h"
#include "tools/verbs.h"

namespace amp {

int run_export(const cli::Options& opts) {
  const Imported model = open_model(opts);
  ExportOptions e;
  e.precision = opts.str("export_precision");
  for (const std::string& note : export_model(*model.doc, model.graph, {}, e, opts.str("out")).notes) std::cerr << "note: " << note << '\n';
  std::cout << opts.str("out") << '\n';
  return 0;
}

}  // namespace amp
