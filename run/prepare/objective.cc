// Chooses the objective of a run: losses, task and teacher. The task is `task`, else the data's, else the loss's. The
// checks of labels and pairs read the data once before training, so that a bad label or a split pair fails early.
#include "run/prepare/objective.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "importer/discover/output_activation.h"
#include "importer/surgery/inference_inputs.h"
#include "run/data/data.h"
#include "run/model/decoder_folder.h"
#include "run/model/fixed_shapes.h"
#include "run/model/model_file.h"
#include "run/model/operator_advice.h"
#include "run/prepare/common.h"
#include "run/prepare/losses.h"
#include "run/settings/asked_objective.h"
#include "run/settings/values.h"
#include "run/spec/spec.h"
#include "trainer/losses/loss.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {
// Returns the default loss of a task on this model. A segmentation model with one channel is binary.
std::string loss_of(Task task, const SourceGraph& g) {
  const TaskRule& rule = task_rule(task);
  if (!*rule.binary_loss) return rule.loss;
  for (const int o : g.outputs) {
    const SourceValue& v = g.values[static_cast<size_t>(o)];
    if (v.rank_known && v.dims.size() == rule.output_rank && v.dims[rule.class_axis].value == 1)
      return rule.binary_loss;
  }
  return rule.loss;
}

// Returns true if the model has one probability per row and the user named no loss. Such a model is a binary
// classifier, not a multilabel model with one label.
bool is_yes_or_no(const ObjectiveSpec& objective, const SourceGraph& g, const Losses& losses) {
  if (!requested_losses(objective).parts.empty() || losses.parts.size() != 1 || losses.parts[0].kind != "bce_logits")
    return false;
  const SourceValue& v = g.value(g.find(losses.parts[0].outputs.at(0)));
  return v.rank_known && v.dims.size() == 2 && v.dims[1].value == 1;
}
}  // namespace

Objective choose_objective(const RunSpec& spec, const SourceGraph& g, const std::string& head, Task task,
                           const Log& log, bool references) {
  Objective objective;
  objective.losses =
      choose_losses(spec.model, spec.objective, g, head, task == Task::none ? "" : loss_of(task, g), references);
  for (LossSpec& s : objective.losses.parts) {
    const bool thirds = task_rule(task_of(s)).embeddings && spec.data.text.text_columns->size() == 3;
    if (thirds && s.outputs.size() == 1) s.sides = 3;
  }
  log_losses(objective.losses, bypass_output_activations(g, objective.losses), log);
  objective.task = requested_task(spec.objective);
  const auto all_fit = [&] {
    return std::all_of(objective.losses.parts.begin(), objective.losses.parts.end(),
                       [&](const LossSpec& s) { return fits(task, s); });
  };
  // A task that follows from the data takes precedence over a task that follows from the loss. By the loss alone, a
  // classifier with one logit could not be distinguished from a model with independent labels.
  const MetricsFrom from = task_rule(task).metrics_from;
  const bool by_data = from == MetricsFrom::data ||
                       (from == MetricsFrom::data_sans_loss && requested_losses(spec.objective).parts.empty());
  if (objective.task == Task::none && by_data && all_fit()) objective.task = task;
  if (objective.task == Task::none && task == Task::none && is_yes_or_no(spec.objective, g, objective.losses))
    objective.task = Task::classification;
  for (const LossSpec& s : objective.losses.parts) {
    if (objective.task == Task::none) objective.task = task_of(s);
    if (!fits(requested_task(spec.objective), s)) {
      fail(Exit::usage, "E_TASK",
           cat("`task` ", name_of(requested_task(spec.objective)), " and the loss ", s.kind, " do not go together"),
           "leave one of them out, or choose another");
    }
  }
  for (const std::string& text : spec.evaluation.require)
    check_metric(objective.task, gate_of(text).metric, "`require` " + text);
  if (spec.evaluation.metric_for_best_model != "auto") {
    check_metric(objective.task, spec.evaluation.metric_for_best_model, "`metric_for_best_model`");
  }
  return objective;
}

// Returns the number of classes in the output's declared dims, or -1. For cross-entropy beyond rank 2 the labels' shape
// decides which dimension it is.
static int64_t declared_classes(const SourceGraph& g, const LossSpec& s) {
  const SourceValue& v = g.values[static_cast<size_t>(g.find(s.values().front()))];
  const ClassAxis axis = loss_rule(s.kind).classes;
  const size_t rank = v.rank_known ? v.dims.size() : 0;
  int64_t places = -1;
  if (axis == ClassAxis::of_tokens && rank == 3) places = v.dims[2].value;
  if ((axis == ClassAxis::of_rows && rank == 2) || (axis == ClassAxis::of_places && rank >= 3))
    places = v.dims[1].value;
  return places > 0 ? places + loss_rule(s.kind).more_classes : -1;
}

void check_labels(const SourceGraph& g, const Losses& losses, const Dataset& data) {
  for (const LossSpec& s : losses.parts) {
    if (s.label_name() != "label") continue;
    if (const int64_t classes = declared_classes(g, s); classes > 1) data.check_label_range(classes, s.ignore_index());
  }
}

void check_labels(const Session& session, const Losses& losses, const Dataset& data) {
  std::vector<LossSpec> open;  // losses whose labels could not be checked with the declared dims
  std::copy_if(losses.parts.begin(), losses.parts.end(), std::back_inserter(open), [&](const LossSpec& s) {
    return loss_rule(s.kind).classes != ClassAxis::none &&
           (s.label_name() != "label" || declared_classes(session.source(), s) <= 1);
  });
  if (open.empty()) return;
  const int64_t first = 0;
  const Tensors sample = to_tensors(data.batch({&first, 1}), nullptr);
  const std::shared_ptr<const Graph> graph = session.forward_graph(values_of(session.source(), losses), sample);
  for (const LossSpec& s : open) {
    const auto label = sample.find(s.label_name());
    const auto out = std::find_if(graph->outputs.begin(), graph->outputs.end(),
                                  [&](const Graph::Output& o) { return o.name == s.values().front(); });
    if (label == sample.end() || is_float(label->second.dtype()) || out == graph->outputs.end()) continue;
    const LossRule& rule = loss_rule(s.kind);
    int64_t classes = class_count(rule.classes, graph->value(out->value).dims, label->second.dims());
    if (classes > 0) classes += rule.more_classes;
    if (classes > 0 && s.label_name() == "label") data.check_label_range(classes, s.ignore_index());
    if (classes > 0 && s.label_name() != "label") data.check_more_labels(s.label_name(), classes, s.ignore_index());
  }
}

int64_t rows_per_item(const Losses& losses) {
  int64_t rows = 1;
  for (const LossSpec& s : losses.parts) rows = std::max(rows, rows_together(s));
  return rows;
}

void log_cosine_targets(const Losses& losses, const Dataset& data, const Log& log) {
  const bool cosine =
      std::any_of(losses.parts.begin(), losses.parts.end(), [](const LossSpec& s) { return s.kind == "cosine_mse"; });
  if (!cosine) return;
  double low = 0, high = 0;
  constexpr int64_t kAtOnce = 1024;
  for (int64_t at = 0; at < data.size(); at += kAtOnce) {
    std::vector<int64_t> samples(static_cast<size_t>(std::min(kAtOnce, data.size() - at)));
    std::iota(samples.begin(), samples.end(), at);
    const HostTensor labels = data.labels_of(samples);
    if (!labels) return;
    for (const double v : labels.to_doubles()) {
      low = std::min(low, v);
      high = std::max(high, v);
    }
  }
  if (low >= -1 && high <= 1) return;
  log.warning(cat("cosine_mse compares cosines, from -1 to 1, with labels from ", low, " to ", high,
                  ": the loss cannot become 0. Divide the scores by ", std::max(-low, high), " in the data"));
}

void check_pairs(const Losses& losses, const Dataset& data, int64_t batch_size, bool shuffled) {
  if (data.size() <= 1) return;  // the data are a file of tensors that is one whole batch
  for (const LossSpec& s : losses.parts) {
    const int64_t n = rows_together(s);
    if (n == 1) continue;
    if (const int64_t sides = data.rows_per_sample(); sides > 1) {
      if (sides != n)
        fail(Exit::usage, "E_PAIRS", cat("the loss ", s.kind, " compares ", n, " texts, ", sides, " columns are given"),
             cat("name ", n, " columns with `text_columns`"));
      continue;
    }
    const std::string rows = cat("the loss ", s.kind, " takes ", n, " rows in turn as one item");
    if (!data.buckets().empty())
      fail(Exit::usage, "E_PAIRS", cat(rows, ", `image_sizes` would part them"), "leave it out");
    if (shuffled)
      fail(Exit::usage, "E_PAIRS", cat(rows, ", `shuffle` would part them"),
           "add `shuffle` false, or name an output for each side");
    if (batch_size == 0)
      fail(Exit::usage, "E_PAIRS", cat(rows, ", `in_tokens` parts them"),
           "leave it out: `batch_size` counts rows then");
    if (batch_size % n)
      fail(Exit::usage, "E_PAIRS", cat(rows, ", `batch_size` ", batch_size, " parts them"),
           cat("give a multiple of ", n));
    if (data.size() % n)
      fail(Exit::data, "E_DATA_PAIRS", cat(rows, ", the data has ", data.size()), "the last item is not whole");
  }
}

std::unique_ptr<OpenTeacher> open_teacher(const RunSpec& spec, const Losses& losses, const Log& log) {
  if (!losses.wants_teacher()) return nullptr;
  auto t = std::make_unique<OpenTeacher>();
  const std::string file = model_file(spec.objective.teacher, log);
  ImportOptions options;
  options.past = past_options(spec.model, file);
  t->model = import_model(file, options);
  refuse_inference_inputs(t->model.graph, options.past);
  SourceGraph& g = t->model.graph;
  require_known_operators(g, g.outputs);
  fix_shapes(g, g.outputs);
  t->teacher = std::make_unique<Teacher>(
      g, session_options(spec, Job::train, choose_plan(spec.precision, Job::train, g, log), log), losses);
  for (size_t i = 0; i < t->teacher->outputs().size(); ++i) {
    const auto end = output_activation(g, g.find(t->teacher->outputs()[i]));
    if (!end || end->op == "Sigmoid") continue;
    t->teacher->read(i, end->logits);
    log.info(cat("teacher: the ", end->op, " before '", printable(t->teacher->outputs()[i]), "' is bypassed"));
  }
  release_parameters(t->model);
  log.info(cat("teacher: ", spec.objective.teacher, ", ", g.nodes.size(), " nodes, frozen"));
  return t;
}

std::vector<InputSpec> OpenTeacher::inputs(const std::vector<InputSpec>& fed) const {
  std::vector<InputSpec> out;
  for (InputSpec& i : input_specs(model.graph, teacher->inputs())) {
    if (std::none_of(fed.begin(), fed.end(), [&](const InputSpec& f) { return f.name == i.name; })) out.push_back(i);
  }
  return out;
}

Gate gate_of(const std::string& text) {
  const std::optional<Gate> gate = parse_gate(text);
  if (!gate) fail(Exit::usage, "E_USAGE", cat("'", printable(text), "' is no quality gate"), "write METRIC>=X");
  return *gate;
}

std::vector<GateResult> gate_results(const std::vector<std::string>& gates, const Metrics* metrics) {
  std::vector<GateResult> out;
  for (const std::string& text : gates) {
    const Gate gate = gate_of(text);
    const double value = metrics ? metrics->value(gate.metric) : std::nan("");
    out.push_back({text, value, gate.met(value)});
  }
  return out;
}

void check_gates(const std::vector<std::string>& gates, const Metrics* metrics, const std::string& hint) {
  std::string missed;
  for (const GateResult& r : gate_results(gates, metrics)) {
    if (!r.met) missed += cat(missed.empty() ? "" : "; ", "`require` ", r.text, ": the final value is ", r.value);
  }
  if (!missed.empty()) fail(Exit::gate, "E_GATE", missed, hint);
}

}  // namespace amp
