// Verb create: writes a new model with random weights; its sizes may be derived from a table. Verb convert: converts a
// checkpoint to ONNX, or ONNX to a checkpoint.
#include <iostream>

#include "base/error.h"
#include "base/fs.h"
#include "base/message.h"
#include "base/text.h"
#include "run/model/build.h"
#include "run/model/model_classes.h"
#include "run/model/table_model.h"
#include "run/spec/spec.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {
namespace {

BuildSpec spec_of_build(const cli::Options& opts) {
  BuildSpec spec;
  spec.model = opts.str("model");
  spec.head = opts.str("model_head");
  spec.seed = static_cast<uint64_t>(opts.integer("seed"));
  return spec;
}

int told(const BuiltModel& built, const std::string& out) {
  print_message(Level::info, cat(built.architecture, built.head == "none" ? std::string() : ", " + built.head, ": ",
                                 with_thousands(built.parameters), " parameters"));
  std::cout << out << '\n';
  return 0;
}

}  // namespace

static int run_create(const cli::Options& opts, const Console& console) {
  BuildSpec spec = spec_of_build(opts);
  spec.config = opts.str("model_config");
  const std::string& out = opts.str("out");
  for (const char* name : {"target", "categorical", "continuous", "date", "join"}) {
    if (opts.has(name) && opts.str("train").empty())
      fail(Exit::usage, "E_USAGE", cat("--", name, " names columns of a table, and --train names none"),
           "add --train FILE.csv");
  }
  if (opts.str("train").empty()) return told(create_model(spec, out, console.log()), out);
  if (!is_table_architecture(spec.model))
    fail(Exit::usage, "E_USAGE", cat("--train derives the sizes of tabular and mlp, the model is '", spec.model, "'"),
         "leave --train out; --model_config sets sizes");
  const ReadTable read = read_for_model(with_label_file(spec_of(opts)), false, console.log());
  return told(create_for_table(spec, read, out, console.log()), out);
}

static int run_convert(const cli::Options& opts, const Console& console) {
  const std::string& out = opts.str("out");
  if (is_dir(opts.str("model"))) return told(convert_checkpoint(spec_of_build(opts), out, console.log()), out);
  write_checkpoint(opts.str("model"), out, console.log());
  std::cout << out << '\n';
  return 0;
}

static const RegisterVerb create_verb(cli::Verb::create, run_create);
static const RegisterVerb convert_verb(cli::Verb::convert, run_convert);

}  // namespace amp
