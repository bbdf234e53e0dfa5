// Verb export: writes the weights of a run's checkpoints as a model or as a Hugging Face checkpoint. It also writes a
// model file in another precision.
#include <iostream>

#include "base/error.h"
#include "base/message.h"
#include "run/export/export.h"
#include "run/folder/run_files.h"
#include "run/model/build.h"
#include "run/model/model_file.h"
#include "run/spec/spec.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {
namespace {

void print_export(const ExportedRun& run, const std::string& which) {
  print_message(Level::info,
                cat("exported the ", which, " weights of step ", run.step,
                    run.difference ? cat("; outputs differ from the trained graph's by at most ", *run.difference)
                                   : std::string()));
}

// Refuses flags of a precision plan when a run is exported, because the run's own plan is used.
void refuse_plan(const cli::Options& opts) {
  for (const char* flag : {"use_fp16", "use_bf16", "amp_level", "precision_plan"}) {
    if (opts.was_set(flag))
      fail(Exit::usage, "E_USAGE", cat("--", flag, ": a run is exported by the precision plan that it computed with"),
           "leave it out; --export_precision fp16 rounds all of the file");
  }
}

// Refuses --export_weights when a model file is exported.
void refuse_choice(const cli::Options& opts, const std::string& which) {
  if (!opts.was_set("export_weights") || which == "last") return;
  fail(Exit::usage, "E_USAGE", cat("--export_weights ", which, ": a model file holds one set of weights"),
       "name the run's folder instead of a file");
}

int run_to_huggingface(const cli::Options& opts, const Console& console) {
  const std::string model = opts.str("model"), out = opts.str("out"), which = opts.str("export_weights");
  if (opts.flag("export_raw_rows") || opts.str("export_precision") != "fp32") {
    fail(Exit::usage, "E_USAGE", "--to huggingface writes the weights as they are, in fp32",
         "leave --export_precision and --export_raw_rows out");
  }
  if (is_run_folder(model)) {
    print_export(export_checkpoint(model, which, out, console.log()), which);
  } else {
    refuse_choice(opts, which);
    write_checkpoint(model_file(model, console.log()), out, console.log());
  }
  std::cout << out << '\n';
  return 0;
}

}  // namespace

static int run_export(const cli::Options& opts, const Console& console) {
  if (opts.str("to") == "huggingface") return run_to_huggingface(opts, console);
  const std::string model = opts.str("model"), out = export_target(opts.str("out")), which = opts.str("export_weights");
  const bool raw = opts.flag("export_raw_rows");
  std::string written = out;
  if (raw && opts.str("export_precision") != "fp32")
    fail(Exit::usage, "E_USAGE", "--export_raw_rows true is for --export_precision fp32", "leave one of them out");
  if (is_run_folder(model)) {
    refuse_plan(opts);
    const ExportedRun done = export_run(model, which, spec_of(opts).output.export_types(), out, console.log());
    print_export(done, which);
    written = done.written;
    if (raw) {
      RunSpec exported = spec_of(opts);
      exported.model.model = out;
      exported.output.export_precision = RunSpec().output.export_precision;  // by default the file's types are kept
      export_file(exported, out, console.log());
    }
  } else {
    refuse_choice(opts, which);
    export_file(spec_of(opts), out, console.log());
  }
  std::cout << written << '\n';
  return 0;
}

static const RegisterVerb export_model_verb(cli::Verb::export_model, run_export);

}  // namespace amp
