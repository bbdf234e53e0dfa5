// check: binds and differentiates the graph in a dry run that continues after errors (graph/probe.h), and reports each
// node with the reason why it computes and trains, or does not. The dry run starts with 2 rows and 3 tokens and tries
// larger sizes, because image models need a minimum size. It computes only constants.

#include "run/check/check.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backend/interpreter.h"
#include "base/error.h"
#include "base/text.h"
#include "graph/probe.h"
#include "importer/discover/describe.h"
#include "importer/surgery/head.h"
#include "run/model/fixed_shapes.h"
#include "run/model/model_classes.h"
#include "run/model/operator_advice.h"
#include "run/model/probe.h"
#include "run/model/surgery.h"
#include "run/model/unknown_task.h"
#include "run/prepare/common.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

constexpr int64_t kBatch = 2, kLength = 3;  // sizes of open dimensions in the dry run

std::string advice(const SourceGraph& g, const SourceNode& n, const Error& e) {
  if (e.id().rfind("E_OP_", 0) == 0) {
    if (std::string text = operator_advice(g, n); !text.empty()) return text;
  }
  if (e.id() == "E_OP_DOMAIN") return "re-export without it, or name an output before it with `output`";
  return e.hint().empty() ? "name an output before it with `output`" : e.hint();
}

// Returns the reason why the dry run (Probe) did not reach a node, if it recorded no error for the node.
std::string forward_reason(const SourceGraph& g, const Probe& p, size_t n) {
  for (const int v : g.nodes[n].inputs) {
    if (v < 0 || p.known[static_cast<size_t>(v)]) continue;
    const int from = g.values[static_cast<size_t>(v)].producer;
    if (from >= 0)
      return cat("not reached: needs '", printable(g.values[static_cast<size_t>(v)].name), "' of node ", from);
  }
  return "not reached";
}

CheckedNode judge(const SourceGraph& g, const Probe& p, const PrecisionPlan& plan, const std::vector<bool>& live,
                  size_t n) {
  const SourceNode& node = g.nodes[n];
  const int at = static_cast<int>(n);
  CheckedNode r;
  r.name = node.name;
  r.op = node.op;
  r.domain = node.domain;
  r.opset = node.version;
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
    r.todo = advice(g, node, fault->second);
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
    r.todo = b->second.hint().empty() ? "freeze the weights before it (`freeze` GLOB), or re-export" : b->second.hint();
  } else if (r.gradient) {
    r.reason = plan.nodes[n].rule;
  } else {
    r.reason = p.folded[n] ? "constant once shapes are known, or equal to another node" : "no gradient passes";
  }
  return r;
}

struct Probed {
  Probe probe;
  std::vector<int> outputs;
  int64_t length = kLength;
};

std::vector<int> chosen_outputs(const ModelSpec& model, const SourceGraph& g) {
  if (model.output.empty()) return g.outputs;
  const int v = g.find(model.output);
  if (v < 0) {
    std::vector<std::string> names;
    for (const int o : g.outputs) names.push_back(g.values[static_cast<size_t>(o)].name);
    fail(Exit::usage, "E_LOSS_IO", cat("`output`: the model has no value '", printable(model.output), "'"),
         cat("its outputs: ", join(names, ", ")));
  }
  return {v};
}

Probed examine(const ModelSpec& model, const SourceGraph& g, const PrecisionPlan& plan, CheckReport& report) {
  Probed p;
  p.outputs = chosen_outputs(model, g);
  const ParamTable table(g);
  std::vector<bool> trainable;
  for (const int v : table.source_value) trainable.push_back(g.values[static_cast<size_t>(v)].trainable);
  BindOptions o;
  o.outputs = p.outputs;
  o.input_dims = probe_dims(g, p.outputs, kBatch, kLength);
  p.probe = probe(g, table, o, trainable, cpu_evaluator());
  for (const int64_t size : kProbedSizes) {  // tries larger images: a pooling window may not fit into small ones
    if (std::none_of(p.probe.forward.begin(), p.probe.forward.end(),
                     [](const auto& fault) { return fault.second.exit() != Exit::unsupported; }))
      break;
    o.input_dims = probe_options(g, p.outputs, size).input_dims;
    Probe larger = probe(g, table, o, trainable, cpu_evaluator());
    if (larger.forward.size() >= p.probe.forward.size()) continue;
    p.probe = std::move(larger);
    report.length = p.length = size;
  }
  const std::vector<bool> live = live_nodes(g, p.outputs);
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const CheckedNode row = judge(g, p.probe, plan, live, n);
    report.no_forward += row.live && !row.forward;
    report.no_backward += row.live && row.forward && !row.backward;
    if (p.probe.forward.count(static_cast<int>(n))) report.unsupported.insert(operator_name(row));
    report.nodes.push_back(row);
  }
  return p;
}

// Returns the outputs that a loss can read: they are bound, and a gradient flows from them to parameters.
std::vector<std::string> trainable_outputs(const SourceGraph& g, const Probed& r) {
  std::vector<std::string> out;
  for (const int v : r.outputs) {
    const int from = g.values[static_cast<size_t>(v)].producer;
    if (from >= 0 && r.probe.known[static_cast<size_t>(v)] && r.probe.gradient[static_cast<size_t>(from)])
      out.push_back(g.values[static_cast<size_t>(v)].name);
  }
  return out;
}

CheckedHead check_head(const RunSpec& spec, const SourceGraph& g, const Probed& r) {
  CheckedHead out;
  if (const OutputEvidence look = unknown_task(spec, g, true)) {
    out.error = describe_unknown_task(look);
    out.todo = kUnknownTaskHint;
    return out;
  }
  HeadOptions h;
  h.probe = r.probe.dims;
  mark_open_dims(g, r.outputs, r.length, h.probe);
  for (const int v : r.outputs) {
    const Dims& d = h.probe[static_cast<size_t>(v)];
    const SourceValue& x = g.values[static_cast<size_t>(v)];
    if (r.probe.known[static_cast<size_t>(v)] && d.size() == 2 && d[1] > 1 && x.producer >= 0)
      out.own.emplace_back(x.name, d[1]);
  }
  h.from = spec.model.head_from;
  h.pooling = spec.model.pooling;
  h.num_labels = spec.model.num_labels > 0 ? spec.model.num_labels : -1;
  try {
    const HeadChoice c = choose_head(g, h);
    out.needed = c.needed;
    out.from = g.values[static_cast<size_t>(c.source_value)].name;
    out.pooling = c.pooling;
    out.reason = c.reason;
  } catch (const Error& e) {
    if (e.exit() == Exit::usage) throw;
    out.error = e.fact();
    out.todo = e.hint();
  }
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) out.push_back(line);
  }
  return out;
}

// Lists the parameters, each with the information whether a gradient reaches it.
void list_parameters(const Imported& model, const Probed& p, CheckReport& report) {
  const ParamTable table(model.graph);
  for (const std::string& line : lines_of(describe_parameters_json(model.graph, model.verdicts))) {
    nlohmann::json row = nlohmann::json::parse(line);
    const int slot = table.slot_of[static_cast<size_t>(model.graph.find(row["name"].get<std::string>()))];
    const bool reached = slot >= 0 && p.probe.reached[static_cast<size_t>(slot)];
    row["gradient"] = reached;
    report.unreached += row["trainable"].get<bool>() && !reached;
    report.parameter_lines.push_back(row.dump());
  }
}

bool has_tensors(const SourceGraph& g) {
  return std::any_of(g.values.begin(), g.values.end(), [](const SourceValue& v) {
    return (v.kind == SourceKind::parameter || v.kind == SourceKind::constant) && is_float(v.data.dtype()) &&
           v.data.numel() > 1;
  });
}

}  // namespace

std::string operator_name(const CheckedNode& n) { return n.domain.empty() ? n.op : n.domain + "::" + n.op; }

CheckReport check_model(const RunSpec& spec, const Log& log) {
  Imported model = open_model(spec, Job::check, log);
  SourceGraph& g = model.graph;
  CheckReport r;
  r.fixed = fix_shapes(g, chosen_outputs(spec.model, g));
  tie_rows(spec.model, g, chosen_outputs(spec.model, g), log);
  r.batch = r.fixed.rows > 0 ? r.fixed.rows : kBatch;
  r.length = r.fixed.length > 0 ? r.fixed.length : kLength;
  const Probed p = examine(spec.model, g, choose_low_plan(spec.precision, Job::check, g, log), r);
  const ParameterCount count = count_parameters(g);
  r.tensors = count.tensors;
  r.elements = count.elements;
  r.loss_outputs = trainable_outputs(g, p);
  r.trains = r.no_forward == 0 && r.no_backward == 0 && !r.loss_outputs.empty();
  if (!r.trains && !r.loss_outputs.empty())
    r.todo = cat("`output` ", r.loss_outputs[0], " trains without the nodes that are not supported");
  else if (!r.trains && count.tensors == 0)
    r.todo = has_tensors(g) ? "no tensor is in a weight's position: name some with `trainable` GLOB"
                            : "the model has no floating-point tensors: its numbers are attributes of operators, which "
                              "cannot be trained";
  list_parameters(model, p, r);
  r.tensor_lines = lines_of(describe_tensors_json(g, model.verdicts));
  r.tensor_table = describe_tensors(g, model.verdicts);
  r.head = check_head(spec, g, p);
  r.notes = model.notes;
  log_fixed_shapes(r.fixed, log);
  // preview_surgery() attaches a head. Therefore it works on a copy of the model.
  SurgeryPreview before = preview_surgery(spec, model);
  r.before_training = std::move(before.lines);
  for (const KnownClasses& k : known_classes(spec.model, model)) {
    const bool fits = std::any_of(r.head.own.begin(), r.head.own.end(),
                                  [&](const auto& own) { return own.second == static_cast<int64_t>(k.names.size()); });
    if (!fits) continue;
    r.before_training.push_back(cat("classes: ", k.names.size(), ", ", k.source, ": ", some_of(k.names)));
    break;
  }
  r.dropout = std::move(before.dropout);
  return r;
}

}  // namespace amp
