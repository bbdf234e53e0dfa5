#include "tools/show_plan.h"

#include <iostream>

#include "base/file.h"
#include "base/text.h"
#include "precision/plan_io.h"
#include "precision/plan_view.h"

namespace amp {

std::string extension(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos || path.find('/', dot) != std::string::npos ? "" : path.substr(dot + 1);
}

void write_plan_file(const cli::Options& opts, const std::string& text) {
  FileWriter file(opts.str("out"));
  file.write(text);
  file.commit();
}

namespace {

// What to write: as --format says, else as the file is called.
std::string format_of(const cli::Options& opts) {
  if (opts.str("format") != "auto") return opts.str("format");
  const std::string ext = extension(opts.str("out"));
  if (ext == "dot" || ext == "gv") return "dot";
  if (ext == "html" || ext == "htm") return "html";
  return opts.has("out") || opts.flag("json") ? "json" : "text";
}

std::string cost_line(const PlanCost& cost) {
  int64_t weights = 0, weight_bytes = 0, values = 0, value_bytes = 0, gradients = 0, gradient_bytes = 0;
  for (const CastCost& c : cost.casts()) {
    ++(c.weight ? weights : c.backward ? gradients : values);
    (c.weight ? weight_bytes : c.backward ? gradient_bytes : value_bytes) += c.bytes;
  }
  std::string shapes;
  for (const auto& [name, dims] : cost.shapes)
    shapes += cat(shapes.empty() ? "" : ", ", printable(name), " ", to_string(dims));
  return cat("casts: ", values, " of values (", with_thousands(value_bytes), " B), ", gradients, " of gradients (",
             with_thousands(gradient_bytes), " B) in a micro-batch; ", weights, " of weights (",
             with_thousands(weight_bytes), " B) in a step; ", with_thousands(cost.stored_bytes()),
             " B stored forward; for ", shapes, "\n");
}

}  // namespace

void show_plan(const cli::Options& opts, const SourceGraph& graph, const PrecisionPlan& plan, const PlanCost* cost) {
  const std::string format = format_of(opts);
  const std::string table = explain_plan(graph, plan) + (cost ? cost_line(*cost) : "");
  const std::string text = format == "dot"    ? plan_to_dot(graph, plan)
                           : format == "html" ? plan_to_html(graph, plan_to_json(graph, plan, cost))
                           : format == "json" ? plan_to_json(graph, plan, cost)
                                              : table;
  if (!opts.has("out")) {
    std::cout << text;
    return;
  }
  write_plan_file(opts, text);
  if (!opts.flag("quiet")) std::cout << table;
}

}  // namespace amp
