// Verb plan: writes the type of each node and the rule that decided it, as a table, JSON, DOT or HTML; or writes the
// differences of two plans.
#include <iostream>

#include "base/file.h"
#include "base/terminal_text.h"
#include "run/prepare/plan.h"
#include "run/spec/spec.h"
#include "tools/console.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {

namespace {

std::string extension(const std::string& path) {  // returns "json" for "a/b.json"; may be empty
  const size_t dot = path.rfind('.');
  return dot == std::string::npos || path.find('/', dot) != std::string::npos ? "" : path.substr(dot + 1);
}

std::string text_of(const std::string& path) { return std::string(read_file(path).text()); }

void write_out(const cli::Options& opts, const std::string& text) {
  FileWriter file(opts.str("out"));
  file.write(text);
  file.commit();
}

// Returns the text of a plan, or of a difference of two plans, escaped for standard output.
std::string shown(const std::string& text, const std::string& format) {
  return format == "json" ? printable_json(text) : printable_lines(text);
}

// Returns the output format: that of --format or, if it is auto, the extension of --out.
std::string format_of(const cli::Options& opts) {
  if (opts.str("format") != "auto") return opts.str("format");
  const std::string ext = extension(opts.str("out"));
  if (ext == "dot" || ext == "gv") return "dot";
  if (ext == "html" || ext == "htm") return "html";
  return opts.has("out") || opts.flag("json") ? "json" : "text";
}

int run_diff(const cli::Options& opts, const Console& console) {
  const std::string a = opts.str("diff"), b = opts.str("model");
  const std::string other = extension(b) == "json" ? text_of(b) : plan_json(spec_of(opts), console.log());
  const std::string text = compare_plans(text_of(a), a, other, b);
  if (opts.has("out")) write_out(opts, text);
  std::cout << shown(text, "text");
  return 0;
}

}  // namespace

static int run_plan(const cli::Options& opts, const Console& console) {
  if (opts.has("diff")) return run_diff(opts, console);
  RunSpec spec = spec_of(opts);
  const bool measure = opts.has("calibrate");
  if (measure) spec.data.train = opts.str("calibrate");
  const PlannedModel planned = measure ? measure_model(spec, console.log()) : plan_model(spec, console.log());
  if (!opts.has("out")) {
    std::cout << shown(render(planned, format_of(opts)), format_of(opts));
    return 0;
  }
  write_out(opts, render(planned, format_of(opts)));
  if (!opts.flag("quiet")) std::cout << shown(render(planned, "text"), "text");
  return 0;
}

static const RegisterVerb plan_verb(cli::Verb::plan, run_plan);

}  // namespace amp
