// check: will this file train? Every node with its reason, the parameters, the head that would be chosen. Exit 0 or 4.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/interpreter.h"
#include "base/text.h"
#include "graph/probe.h"
#include "importer/describe.h"
#include "importer/head.h"
#include "tools/common.h"
#include "tools/surgery.h"
#include "tools/verbs.h"

namespace amp {

namespace {

constexpr int64_t kBatch = 2, kLength = 3;  // what open dimensions are probed with

struct Row {
  bool live = false, forward = false, backward = false, gradient = false;
  std::string shape, precision, reason, todo;
};

std::string operator_name(const SourceNode& n) { return n.domain.empty() ? n.op : n.domain + "::" + n.op; }

std::string advice(const SourceNode& n, const Error& e) {
  if (e.id() == "E_OP_DOMAIN") {
    if (n.domain == "com.microsoft") return "save the model without onnxruntime's fusions (optimization level basic)";
    return "re-export without it, or name an output before it with --output";
  }
  return e.hint().empty() ? "name an output before it with --output" : e.hint();
}

// Why a node that no error stopped is as it is.
std::string forward_reason(const SourceGraph& g, const Probe& p, size_t n) {
  for (const int v : g.nodes[n].inputs) {
    if (v < 0 || p.known[static_cast<size_t>(v)]) continue;
    const int from = g.values[static_cast<size_t>(v)].producer;
    if (from >= 0)
      return cat("not reached: needs '", printable(g.values[static_cast<size_t>(v)].name), "' of node ", from);
  }
  return "not reached";
}

Row judge(const SourceGraph& g, const Probe& p, const PrecisionPlan& plan, const std::vector<bool>& live, size_t n) {
  const SourceNode& node = g.nodes[n];
  const int at = static_cast<int>(n);
  Row r;
  r.live = live[n];
  r.precision = std::string(name_of(plan.nodes[n].compute));
  for (const int v : node.outputs) {
    if (r.shape.empty() && v >= 0 && p.known[static_cast<size_t>(v)])
      r.shape = to_string(p.dims[static_cast<size_t>(v)]);
  }
  if (!r.live) {
    r.forward = r.backward = find_onnx_op(node.domain, node.op, node.version) != nullptr;
    r.reason = "no chosen output needs it";
    return r;
  }
  const auto fault = p.forward.find(at);
  if (fault != p.forward.end()) {
    r.reason = cat(fault->second.id(), ": ", fault->second.fact());
    r.todo = advice(node, fault->second);
    return r;
  }
  r.forward = !r.shape.empty();
  if (!r.forward) {
    r.reason = forward_reason(g, p, n);
    r.todo = "see the node before it";
    return r;
  }
  r.gradient = p.gradient[n];
  r.backward = true;
  if (const auto b = p.backward.find(at); b != p.backward.end()) {
    r.backward = false;
    r.reason = cat(b->second.id(), ": ", b->second.fact());
    r.todo = b->second.hint().empty() ? "freeze what lies before it (--freeze GLOB), or re-export" : b->second.hint();
  } else if (r.gradient) {
    r.reason = plan.nodes[n].rule;
  } else {
    r.reason = p.folded[n] ? "constant once shapes are known, or equal to another node" : "no gradient passes";
  }
  return r;
}

// The rows of a model that has no shape to probe with are those of its operators alone.
struct Report {
  std::vector<Row> rows;
  Probe probe;
  std::string probe_error;
  std::vector<int> outputs;
};

std::vector<int> chosen_outputs(const cli::Options& opts, const SourceGraph& g) {
  if (!opts.has("output")) return g.outputs;
  const int v = g.find(opts.str("output"));
  if (v < 0) {
    std::vector<std::string> names;
    for (const int o : g.outputs) names.push_back(g.values[static_cast<size_t>(o)].name);
    fail(Exit::usage, "E_LOSS_IO", cat("--output: the model has no value '", printable(opts.str("output")), "'"),
         cat("its outputs: ", join(names, ", ")));
  }
  return {v};
}

Report examine(const cli::Options& opts, const SourceGraph& g, const PrecisionPlan& plan) {
  Report r;
  r.outputs = chosen_outputs(opts, g);
  const ParamTable table(g);
  std::vector<bool> trainable;
  for (const int v : table.source_value) trainable.push_back(g.values[static_cast<size_t>(v)].trainable);
  BindOptions o;
  o.outputs = r.outputs;
  o.input_dims = probe_dims(g, r.outputs, kBatch, kLength);
  r.probe = probe(g, table, o, trainable, cpu_evaluator());
  const std::vector<bool> live = live_nodes(g, r.outputs);
  for (size_t n = 0; n < g.nodes.size(); ++n) r.rows.push_back(judge(g, r.probe, plan, live, n));
  return r;
}

// Outputs that can carry a loss: floating, bound, and a gradient reaches parameters from them.
std::vector<std::string> trainable_outputs(const SourceGraph& g, const Report& r) {
  std::vector<std::string> out;
  for (const int v : r.outputs) {
    const int from = g.values[static_cast<size_t>(v)].producer;
    if (from >= 0 && r.probe.known[static_cast<size_t>(v)] && r.probe.gradient[static_cast<size_t>(from)])
      out.push_back(g.values[static_cast<size_t>(v)].name);
  }
  return out;
}

// What training on labelled text would attach; for the number of classes asked for, or for any that no output has.
nlohmann::json head(const cli::Options& opts, const SourceGraph& g, const Report& r) {
  nlohmann::json out;
  out["own"] = nlohmann::json::array();
  for (const int v : r.outputs) {
    const Dims& d = r.probe.dims[static_cast<size_t>(v)];
    if (r.probe.known[static_cast<size_t>(v)] && d.size() == 2 && d[1] > 1 &&
        g.values[static_cast<size_t>(v)].producer >= 0) {
      out["own"].push_back({{"output", g.values[static_cast<size_t>(v)].name}, {"classes", d[1]}});
    }
  }
  HeadOptions h;
  h.from = opts.str("head_from");
  h.pooling = opts.str("pooling");
  h.num_labels = opts.integer("num_labels") > 0 ? opts.integer("num_labels") : -1;
  h.probe = r.probe.dims;
  try {
    const HeadChoice c = choose_head(g, h);
    out["needed"] = c.needed;
    out["from"] = g.values[static_cast<size_t>(c.source_value)].name;
    out["pooling"] = c.pooling;
    out["reason"] = c.reason;
  } catch (const Error& e) {
    if (e.exit() == Exit::usage) throw;
    out["error"] = e.fact();
    out["todo"] = e.hint();
  }
  return out;
}

void print_table(const SourceGraph& g, const Report& r) {
  size_t wide = 24;
  for (const SourceNode& n : g.nodes) wide = std::max(wide, printable(operator_name(n)).size());
  const int width = static_cast<int>(wide) + 2;
  std::cout << "nodes (open dimensions probed as " << kBatch << ", " << kLength << ")\n"
            << "    #  " << std::left << std::setw(width) << "operator" << std::right
            << "opset  forward  backward  type  shape, name, reason\n";
  for (size_t n = 0; n < r.rows.size(); ++n) {
    const Row& x = r.rows[n];
    const char* forward = !x.live ? "-" : x.forward ? "yes" : "NO";
    const char* backward = !x.live || !x.forward ? "-" : !x.backward ? "NO" : x.gradient ? "yes" : "none";
    std::cout << std::setw(5) << n << "  " << std::left << std::setw(width) << printable(operator_name(g.nodes[n]))
              << std::setw(7) << g.nodes[n].version << std::setw(9) << forward << std::setw(10) << backward
              << std::setw(6) << x.precision << std::right << x.shape << ' ' << printable(g.nodes[n].name) << "  ("
              << x.reason << ")" << (x.todo.empty() ? "" : " -> " + x.todo) << '\n';
  }
}

void print_head(const nlohmann::json& h) {
  for (const auto& o : h["own"])
    std::cout << "head: output '" << o["output"].get<std::string>() << "' serves for " << o["classes"]
              << " classes as it is\n";
  if (h.contains("error")) {
    std::cout << "head: none can be attached: " << h["error"].get<std::string>() << " -> "
              << h["todo"].get<std::string>() << '\n';
  } else if (h["needed"].get<bool>()) {
    std::cout << "head: for labelled text of another number of classes a new one would read '"
              << h["from"].get<std::string>() << "' (" << h["reason"].get<std::string>() << "), pooling "
              << h["pooling"].get<std::string>() << '\n';
  }
}

}  // namespace

int run_check(const cli::Options& opts) {
  const Imported model = open_model(opts);
  const SourceGraph& g = model.graph;
  const bool asked = opts.flag("use_fp16") || opts.flag("use_bf16") || opts.has("precision_plan");
  const PrecisionPlan plan = asked ? choose_plan(opts, g) : decide(g, load_op_list(opts.str("amp_level")), DType::f16);
  const Report r = examine(opts, g, plan);
  int no_forward = 0, no_backward = 0;
  std::set<std::string> unsupported;
  for (size_t n = 0; n < r.rows.size(); ++n) {
    no_forward += r.rows[n].live && !r.rows[n].forward;
    no_backward += r.rows[n].live && r.rows[n].forward && !r.rows[n].backward;
    if (r.probe.forward.count(static_cast<int>(n))) unsupported.insert(operator_name(g.nodes[n]));
  }
  const ParameterCount count = count_parameters(g);
  const std::vector<std::string> losses = trainable_outputs(g, r);
  const bool trains = no_forward == 0 && no_backward == 0 && !losses.empty();
  std::string todo;
  if (!trains && !losses.empty())
    todo = cat("--output ", losses[0], " trains without the nodes that are not supported");
  else if (!trains && count.tensors == 0)
    todo = "no tensor is in a weight's position: name some with --trainable GLOB";

  nlohmann::json parameters = nlohmann::json::array();
  std::istringstream lines(describe_parameters_json(g, model.verdicts));
  const ParamTable table(g);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    nlohmann::json row = nlohmann::json::parse(line);
    const int slot = table.slot_of[static_cast<size_t>(g.find(row["name"].get<std::string>()))];
    row["gradient"] = slot >= 0 && r.probe.reached[static_cast<size_t>(slot)];
    parameters.push_back(std::move(row));
  }
  nlohmann::json tensors = nlohmann::json::array();
  std::istringstream all(describe_tensors_json(g, model.verdicts));
  for (std::string line; std::getline(all, line);) tensors.push_back(nlohmann::json::parse(line));
  int unreached = 0;
  for (const auto& row : parameters) unreached += row["trainable"].get<bool>() && !row["gradient"].get<bool>();

  const nlohmann::json h = head(opts, g, r);
  const Preparation before = look_ahead(opts, model);
  nlohmann::json dropout = nlohmann::json::array();
  for (const DropoutSpot& d : before.dropout)
    dropout.push_back({{"kind", d.kind}, {"node", d.node}, {"ratio", d.ratio}});
  if (opts.flag("json")) {
    nlohmann::json nodes = nlohmann::json::array();
    for (size_t n = 0; n < r.rows.size(); ++n) {
      const Row& x = r.rows[n];
      nodes.push_back({{"index", n},
                       {"name", g.nodes[n].name},
                       {"op", g.nodes[n].op},
                       {"domain", g.nodes[n].domain},
                       {"opset", g.nodes[n].version},
                       {"shape", x.shape},
                       {"live", x.live},
                       {"forward", x.forward},
                       {"backward", x.backward},
                       {"needs_gradient", x.gradient},
                       {"precision", x.precision},
                       {"reason", x.reason},
                       {"todo", x.todo}});
    }
    std::cout << nlohmann::json{{"model", opts.str("model")},
                                {"trains", trains},
                                {"todo", todo},
                                {"unsupported_nodes", no_forward + no_backward},
                                {"unsupported_operators", unsupported},
                                {"loss_outputs", losses},
                                {"trainable_tensors", count.tensors},
                                {"trainable_elements", count.elements},
                                {"unreached_tensors", unreached},
                                {"head", h},
                                {"before_training", before.lines},
                                {"dropout", dropout},
                                {"notes", model.notes},
                                {"nodes", nodes},
                                {"parameters", parameters},
                                {"tensors", tensors}}
                     .dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
              << '\n';
  } else {
    print_table(g, r);
    std::cout << "\ntensors (those in doubt first)\n" << describe_tensors(g, model.verdicts) << '\n';
    print_head(h);
    for (const std::string& line : before.lines) std::cout << "before training: " << line << '\n';
    if (!unsupported.empty())
      std::cout << "not supported: " << join(std::vector<std::string>(unsupported.begin(), unsupported.end()), ", ")
                << '\n';
    if (unreached) std::cout << unreached << " trainable tensors get no gradient from the chosen outputs\n";
    std::cout << (trains ? "trains: yes" : "trains: no") << ", " << with_thousands(count.elements)
              << " trainable values in " << count.tensors << " tensors, " << no_forward << " nodes cannot run, "
              << no_backward << " have no gradient" << (todo.empty() ? "" : "; " + todo) << '\n';
  }
  return trains ? 0 : static_cast<int>(Exit::unsupported);
}

}  // namespace amp
