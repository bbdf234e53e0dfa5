// check: will this file train? Every node with its reason, the parameters, the head that would be chosen. Exit 0 or 4.
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "backend/evaluate.h"
#include "base/text.h"
#include "importer/describe.h"
#include "tools/common.h"
#include "tools/verbs.h"

namespace amp {

namespace {

struct Row {
  bool live = false, forward = false, backward = false, gradient = false;
  std::string precision, reason;
};

// Does some trainable parameter lie upstream of each node?
std::vector<bool> needs_gradient(const SourceGraph& g) {
  std::vector<bool> value(g.values.size(), false), node(g.nodes.size(), false);
  for (size_t v = 0; v < g.values.size(); ++v) value[v] = g.values[v].kind == SourceKind::parameter && g.values[v].trainable;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    for (const int v : g.nodes[n].inputs) node[n] = node[n] || (v >= 0 && value[static_cast<size_t>(v)]);
    for (const int v : g.nodes[n].outputs) {
      if (v >= 0 && node[n]) value[static_cast<size_t>(v)] = true;
    }
  }
  return node;
}

// Operators from which no gradient comes, whatever is upstream.
bool cuts_gradient(const std::string& op) {
  const OpDef* def = find_core_op(op);
  return (def && def->not_differentiable) || op == "Shape" || op == "Size" || op == "ArgMax" || op == "ArgMin" || op == "OneHot";
}

std::vector<Row> judge(const SourceGraph& g, const PrecisionPlan& plan) {
  const std::vector<bool> live = live_nodes(g, g.outputs), gradient = needs_gradient(g);
  std::vector<Row> rows(g.nodes.size());
  for (size_t n = 0; n < rows.size(); ++n) {
    const SourceNode& node = g.nodes[n];
    Row& r = rows[n];
    r.live = live[n];
    r.forward = find_onnx_op(node.domain, node.op, node.version) != nullptr;
    r.gradient = gradient[n] && !cuts_gradient(node.op);
    r.backward = r.forward;
    r.precision = std::string(name_of(plan.nodes[n].compute));
    if (!r.live) r.reason = "no output needs it";
    else if (!r.forward) r.reason = cat("operator ", node.domain.empty() ? "" : node.domain + "::", node.op, " (opset ", node.version, ") is not supported");
    else if (!r.gradient) r.reason = "no gradient passes";
    else r.reason = plan.nodes[n].rule;
  }
  return rows;
}

}  // namespace

int run_check(const cli::Options& opts) {
  const Imported model = open_model(opts);
  const SourceGraph& g = model.graph;
  const bool asked = opts.flag("use_fp16") || opts.flag("use_bf16") || opts.has("precision_plan");
  const PrecisionPlan plan = asked ? choose_plan(opts, g) : decide(g, load_op_list(opts.str("amp_level")), DType::f16);
  const std::vector<Row> rows = judge(g, plan);
  int unsupported = 0;
  for (const Row& r : rows) unsupported += r.live && !r.forward;
  const ParameterCount count = count_parameters(g);
  const bool trains = unsupported == 0 && count.tensors > 0;

  if (opts.flag("json")) {
    nlohmann::json nodes = nlohmann::json::array();
    for (size_t n = 0; n < rows.size(); ++n) {
      nodes.push_back({{"index", n}, {"name", g.nodes[n].name}, {"op", g.nodes[n].op}, {"domain", g.nodes[n].domain}, {"opset", g.nodes[n].version},
                       {"live", rows[n].live}, {"forward", rows[n].forward}, {"backward", rows[n].backward}, {"needs_gradient", rows[n].gradient},
                       {"precision", rows[n].precision}, {"reason", rows[n].reason}});
    }
    nlohmann::json parameters = nlohmann::json::array();
    std::istringstream lines(describe_parameters_json(g));
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) parameters.push_back(nlohmann::json::parse(line));
    }
    std::cout << nlohmann::json{{"model", opts.str("model")}, {"trains", trains}, {"unsupported_nodes", unsupported}, {"trainable_tensors", count.tensors},
                                {"trainable_elements", count.elements}, {"notes", model.notes}, {"nodes", nodes}, {"parameters", parameters}}
                     .dump(2)
              << '\n';
  } else {
    std::cout << "nodes\n";
    for (size_t n = 0; n < rows.size(); ++n) {
      const Row& r = rows[n];
      std::cout << std::setw(5) << n << "  " << std::left << std::setw(24) << printable(g.nodes[n].op) << std::setw(10) << (r.live && !r.forward ? "NO" : r.gradient ? "train" : "forward")
                << std::setw(6) << r.precision << std::right << printable(g.nodes[n].name) << "  (" << r.reason << ")\n";
    }
    std::cout << "\nparameters\n" << describe_parameters(g) << '\n';
    std::cout << (trains ? "trains: yes" : "trains: no") << ", " << with_thousands(count.elements) << " trainable values in " << count.tensors << " tensors, " << unsupported
              << " unsupported nodes\n";
  }
  return trains ? 0 : static_cast<int>(Exit::unsupported);
}

}  // namespace amp
