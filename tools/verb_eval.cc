// eval: loss and metrics of a model on validation data, as one JSON line.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tools/common.h"
#include "tools/model_metadata.h"
#include "tools/objective.h"
#include "tools/run_losses.h"
#include "tools/train_data.h"
#include "tools/verbs.h"

namespace amp {

namespace {
std::vector<std::string> known_labels(const ModelDoc& doc) {
  const std::string labels = model_metadata(doc, "labels");
  if (labels.empty()) {
    fail(Exit::usage, "E_LABELS", "the model names no labels (metadata_props has no 'labels')",
         "evaluate a model that this program trained, or tensors");
  }
  try {
    return nlohmann::json::parse(labels).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    fail(Exit::model, "E_LABELS", "metadata_props 'labels' is no JSON array of strings");
  }
}
}  // namespace

int run_eval(const cli::Options& asked) {
  set_threads(asked);
  asked_losses(asked);
  const Imported model = open_model(asked);
  const ModelRecord record = recorded(*model.doc);
  const cli::Options opts = with_recorded(asked, record);
  const SourceGraph& g = model.graph;
  const std::string path = opts.has("val") ? opts.str("val") : opts.str("inputs");
  if (path.empty()) fail(Exit::usage, "E_USAGE", "eval needs data: --val FILE (text or tensors) or --inputs FILE");
  Task task = asked_task(opts);
  DataNeeds needs;
  if (is_text_file(path)) {
    if (task == Task::none) task = record.task;
    needs.sides = wants_sides(opts);
    if (task == Task::none) task = needs.sides ? sides_task(opts) : Task::classification;
    if (task != Task::regression && task != Task::span && task != Task::retrieval)
      needs.classes = known_labels(*model.doc);
  }
  Objective objective = choose_objective(opts, g, {}, task);
  objective.classes = needs.classes;
  objective.max_answer_length = opts.integer("max_answer_length");
  const std::vector<int> outputs = values_of(g, objective.losses);
  require_known_operators(g, outputs);
  const int64_t batch_size = opts.integer("eval_batch_size");
  needs.task = is_text_file(path) ? task : objective.task;
  needs.inputs = needed_inputs(g, outputs);
  needs.labels = objective.losses.labels();
  if (is_text_file(path)) check_vocabulary(opts, g, needs.inputs);
  const auto data = open_dataset(opts, path, g, needs, batch_size);
  check_ranges(record.ranges, data->input_ranges(), path);
  check_labels(g, objective.losses, *data);
  check_pairs(objective.losses, *data, batch_size, false);
  Session session(g, session_options(opts, choose_plan(opts, g)));
  const Metrics m = evaluate(session, objective, *data, data->size() == 1 ? 1 : batch_size);
  nlohmann::json j = {{"loss", std::isfinite(m.loss) ? nlohmann::json(m.loss) : nlohmann::json(nullptr)},
                      {"samples", m.samples}};
  for (const auto& [name, value] : m.values)
    j[name] = std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
  std::cout << j.dump() << '\n';
  check_gates(opts, &m);
  return 0;
}

}  // namespace amp
