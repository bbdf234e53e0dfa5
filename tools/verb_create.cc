// Verb create: writes a new model with random weights. Verb convert: converts a checkpoint to ONNX, or ONNX to a
// checkpoint.
#include <iostream>

#include "base/fs.h"
#include "base/text.h"
#include "run/model/build.h"
#include "run/spec/spec.h"
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
  std::cerr << built.architecture << (built.head == "none" ? std::string() : ", " + built.head) << ": "
            << with_thousands(built.parameters) << " parameters\n";
  std::cout << out << '\n';
  return 0;
}

}  // namespace

static int run_create(const cli::Options& opts, const Console& console) {
  BuildSpec spec = spec_of_build(opts);
  spec.config = opts.str("model_config");
  return told(create_model(spec, opts.str("out"), console.log()), opts.str("out"));
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
