// export: the weights of a run's checkpoints as a model, or a model file written again in another precision.
//
// A run is set up again from its run.json, data included (labels and shapes come from there), its newest checkpoint
// loaded, and exported as training would have at its end: LAST, BEST and EMA weights whatever the run itself exported,
// even while it is still going on or after it was killed.
#include <iostream>

#include "base/fs.h"
#include "importer/export.h"
#include "tools/common.h"
#include "tools/output_folder.h"
#include "tools/verbs.h"

namespace amp {

namespace {

int export_folder(const cli::Options& opts, const std::string& dir) {
  finish_interrupted_move(dir);
  const std::string config = dir + "/run.json";
  if (!path_exists(config))
    fail(Exit::usage, "E_RUN", cat("'", dir, "' holds no run.json"), "name a run's --output_dir, or a model file");
  const std::vector<std::string> words = {"onnx-amp-finetune",
                                          "--config",
                                          config,
                                          "--output_dir",
                                          dir,
                                          "--quiet",
                                          "true",
                                          "--export_precision",
                                          opts.str("export_precision"),
                                          "--export_weights",
                                          opts.str("export_weights")};
  std::vector<const char*> argv;
  for (const std::string& w : words) argv.push_back(w.c_str());
  try {
    return export_run(cli::parse_command_line(static_cast<int>(argv.size()), argv.data(), nullptr), opts.str("out"));
  } catch (Error& e) {
    throw e.at(cat("in run '", dir, "'"));
  }
}

// The plan that the flags ask for, of fp16 when none does.
std::vector<DType> planned_types(const cli::Options& opts, const SourceGraph& g) {
  const bool asked = opts.flag("use_fp16") || opts.flag("use_bf16") || opts.has("precision_plan");
  const PrecisionPlan plan = asked ? choose_plan(opts, g) : decide(g, load_op_list(opts.str("amp_level")), DType::f16);
  std::vector<DType> out;
  for (const Decision& d : plan.nodes) out.push_back(dtype_of(d.compute));
  return out;
}

}  // namespace

int run_export(const cli::Options& opts) {
  if (is_dir(opts.str("model"))) return export_folder(opts, opts.str("model"));
  if (opts.was_set("export_weights") && opts.str("export_weights") != "last") {
    fail(Exit::usage, "E_USAGE",
         cat("--export_weights ", opts.str("export_weights"), ": a model file holds one set of weights"),
         "name the run's folder instead of a file");
  }
  const Imported model = open_model(opts);
  ExportOptions e;
  e.precision = opts.str("export_precision");
  if (e.precision == "mixed") e.compute = planned_types(opts, model.graph);
  for (const std::string& note : export_model(*model.doc, model.graph, {}, e, opts.str("out")).notes)
    std::cerr << "note: " << note << '\n';
  std::cout << opts.str("out") << '\n';
  return 0;
}

}  // namespace amp
