// plan: what computes in which type, and the rule behind each decision; as a table, JSON, DOT or a page; two plans
// compared.
#include <iostream>

#include "base/file.h"
#include "base/text.h"
#include "precision/plan_diff.h"
#include "precision/plan_io.h"
#include "precision/plan_view.h"
#include "tools/common.h"
#include "tools/verbs.h"

namespace amp {

namespace {

PrecisionPlan plan_of(const cli::Options& opts, const SourceGraph& graph) {
  // Without a type asked for, the plan of --use_fp16: explaining an all-fp32 plan helps nobody.
  const bool asked = opts.flag("use_fp16") || opts.flag("use_bf16") || opts.has("precision_plan");
  return asked ? choose_plan(opts, graph) : decide(graph, load_op_list(opts.str("amp_level")), DType::f16);
}

std::string text_of(const std::string& path) { return std::string(read_file(path).text()); }

std::string extension(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos || path.find('/', dot) != std::string::npos ? "" : path.substr(dot + 1);
}

// What to write: as --format says, else as the file is called.
std::string format_of(const cli::Options& opts) {
  if (opts.str("format") != "auto") return opts.str("format");
  const std::string ext = extension(opts.str("out"));
  if (ext == "dot" || ext == "gv") return "dot";
  if (ext == "html" || ext == "htm") return "html";
  return opts.has("out") || opts.flag("json") ? "json" : "text";
}

void write_out(const cli::Options& opts, const std::string& text) {
  FileWriter file(opts.str("out"));
  file.write(text);
  file.commit();
}

int run_diff(const cli::Options& opts) {
  const std::string a = opts.str("diff"), b = opts.str("model");
  std::string other;
  if (extension(b) == "json") {
    other = text_of(b);
  } else {
    const Imported model = open_model(opts);
    other = plan_to_json(model.graph, plan_of(opts, model.graph));
  }
  const std::string text = diff_plans(text_of(a), a, other, b);
  if (opts.has("out")) write_out(opts, text);
  std::cout << text;
  return 0;
}

}  // namespace

int run_plan(const cli::Options& opts) {
  if (opts.has("diff")) return run_diff(opts);
  const Imported model = open_model(opts);
  const PrecisionPlan plan = plan_of(opts, model.graph);
  const std::string format = format_of(opts);
  const std::string table = explain_plan(model.graph, plan);
  const std::string text = format == "dot"    ? plan_to_dot(model.graph, plan)
                           : format == "html" ? plan_to_html(model.graph, plan_to_json(model.graph, plan))
                           : format == "json" ? plan_to_json(model.graph, plan)
                                              : table;
  if (!opts.has("out")) {
    std::cout << text;
    return 0;
  }
  write_out(opts, text);
  if (!opts.flag("quiet")) std::cout << table;
  return 0;
}

}  // namespace amp
