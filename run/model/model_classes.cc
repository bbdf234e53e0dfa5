// Collects class names of a model. They come from metadata_props (this program's key `labels`, and keys of other
// exporters), from ai.onnx.ml operators, from the checkpoint's configuration that `convert` stores, and from a
// config.json in the model's folder (transformers, Optimum, timm). data/class_order.h chooses among them.

#include "run/model/model_classes.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/json_nesting.h"
#include "base/text.h"
#include "data/label_list.h"
#include "importer/read/class_labels.h"
#include "run/model/model_metadata.h"
#include "run/model/surgery.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Keys of metadata_props in order of preference: this program's key, those of transformers and ultralytics, other
// common keys.
constexpr const char* kMetadataKeys[] = {"labels",  "id2label",    "label2id",    "names",
                                         "classes", "class_names", "label_names", "classlabels"};

void add(std::vector<KnownClasses>& out, std::string source, std::vector<std::string> names) {
  if (names.size() > 1) out.push_back({std::move(source), std::move(names)});
}

// Reads id2label and label2id of transformers, and timm's label_names, which older files store in pretrained_cfg.
void add_config(std::vector<KnownClasses>& out, const json& config, const std::string& where) {
  if (!config.is_object()) return;
  for (const char* key : {"id2label", "label2id", "label_names"}) {
    if (config.contains(key)) add(out, cat(key, " of ", where), parse_label_literal(config[key].dump()));
  }
  if (config.contains("pretrained_cfg")) add_config(out, config["pretrained_cfg"], where);
}

// Returns the path of config.json in the model's folder. If that folder is named onnx (repositories of the hub), its
// parent is searched as well. Returns "" if there is no such file.
std::string config_path(const std::string& model) {
  std::error_code none;
  const fs::path folder = fs::path(model).parent_path();
  for (const fs::path& place : {folder, fs::absolute(model, none).parent_path().filename() == "onnx"
                                            ? fs::path(folder / "..").lexically_normal()
                                            : folder}) {
    if (fs::is_regular_file(place / "config.json", none)) return (place / "config.json").string();
  }
  return {};
}

void tell(const ClassOrder& order, const Log& log) {
  if (!order.classes.empty()) log.info(cat("classes: ", describe(order)));
  for (const std::string& note : order.notes) log.note(note);
  for (const std::string& warning : order.warnings) log.warning(warning);
}

ClassEvidence evidence_of(const RunSpec& spec, const Imported& model, const DataLabels& labels) {
  ClassEvidence e;
  e.labels = labels.texts;
  e.numbered = labels.numbered;
  e.asked = *spec.data.labels;
  e.known = known_classes(spec.model, model);
  return e;
}

// Returns the classes of masks. Pixel values are class ids, so only the names of classes must be found. Numbers do not
// count as names.
ClassOrder mask_classes(const ClassEvidence& e) {
  ClassOrder order = e.head > 0 || !e.asked.empty() ? order_classes(e) : ClassOrder();
  const std::vector<std::string>& names = order.classes.names;
  const bool named = std::any_of(names.begin(), names.end(), [](const std::string& n) { return !whole_number(n); });
  if (!named) order.classes = {};
  return order;
}

}  // namespace

std::vector<KnownClasses> known_classes(const ModelSpec& spec, const Imported& model) {
  std::vector<KnownClasses> out;
  for (const char* key : kMetadataKeys) {
    const std::string text = model_metadata(*model.doc, key);
    if (!text.empty()) add(out, cat("metadata '", key, "' of the model"), parse_label_list(text));
  }
  add(out, "class labels in the graph", class_labels(*model.doc));
  const std::string kept = model_metadata(*model.doc, "huggingface_config");
  add_config(out, parse_json(kept), "the checkpoint that was converted");
  const std::string path = config_path(spec.model);
  if (!path.empty()) add_config(out, parse_json(read_file(path).text()), cat("'", printable(path), "'"));
  return out;
}

RunSpec with_label_file(RunSpec spec) {
  if (spec.data.labels->size() != 1) return spec;
  const std::string path = spec.data.labels->front();
  if (!path_exists(path) || is_dir(path))
    fail(Exit::usage, "E_LABELS", cat("`labels` names one class, and there is no file '", printable(path), "'"),
         "give names with commas between them, or a file with a name a line");
  const std::vector<std::string> names = parse_label_list(read_file(path).text());
  if (names.size() < 2)
    fail(Exit::usage, "E_LABELS", cat("'", printable(path), "' does not name classes"),
         "write a name a line, in the order of the model's outputs; an empty line is no name");
  spec.data.labels = names;
  return spec;
}

ClassOrder training_classes(const RunSpec& spec, const Imported& model, Task task, DataKind kind,
                            const DataLabels& labels, const std::vector<std::string>& resumed, const Log& log) {
  ClassEvidence e = evidence_of(spec, model, labels);
  e.resumed = {"of the run that goes on", resumed};
  std::vector<int64_t> likely = {static_cast<int64_t>(labels.texts.size())};
  for (const KnownClasses& known : e.known) likely.push_back(static_cast<int64_t>(known.names.size()));
  if (!e.asked.empty()) likely = {static_cast<int64_t>(e.asked.size())};
  const TaskRule& rule = task_rule(task);
  e.ordered = rule.ordered_classes;
  for (int64_t& n : likely) n = rule.outputs_for(n);
  e.head = rule.classes_of(kept_outputs(spec.model, model.graph, task, likely));
  e.new_head = never_trained(*model.doc);
  e.spare_outputs = kind == DataKind::features;
  const int64_t asked = spec.model.num_labels;  // requested number of outputs
  e.new_size = e.head > 0 ? 0 : rule.outputs == ClassOutputs::thresholds ? rule.classes_of(asked) : asked;
  ClassOrder order = task_rule(task).has_masks() ? mask_classes(e) : order_classes(e);
  tell(order, log);
  return order;
}

ClassOrder model_classes(const RunSpec& spec, const Imported& model, Task task, const LossSpec& loss,
                         const DataLabels& labels, const Log& log) {
  ClassEvidence e = evidence_of(spec, model, labels);
  e.may_guess = false;
  e.ordered = task_rule(task).ordered_classes;
  e.head = task_rule(task).classes_of(classes_of_output(model.graph, model.graph.find(loss.outputs.at(0)), task));
  ClassOrder order = task_rule(task).has_masks() ? mask_classes(e) : order_classes(e);
  tell(order, log);
  return order;
}

ClassNames named_classes(const RunSpec& spec, const Imported& model, Task task, const LossSpec& loss, const Log& log) {
  const int64_t head =
      task_rule(task).classes_of(classes_of_output(model.graph, model.graph.find(loss.outputs.at(0)), task));
  for (const KnownClasses& known : known_classes(spec.model, model)) {
    if (head == static_cast<int64_t>(known.names.size()))
      return model_classes(spec, model, task, loss, {}, log).classes;
  }
  return spec.data.labels->empty() ? ClassNames() : model_classes(spec, model, task, loss, {}, log).classes;
}

RunSpec with_problem_type(RunSpec spec, const Log& log) {
  const std::string path = config_path(spec.model.model);
  if (path.empty() || task_from_name(*spec.objective.task) != Task::none ||
      !requested_losses(spec.objective).parts.empty())
    return spec;
  const json config = parse_json(read_file(path).text());
  if (!config.is_object() || !config.contains("problem_type") || !config["problem_type"].is_string()) return spec;
  const auto type = config["problem_type"].get<std::string>();
  const char* const task = type == "multi_label_classification" ? "multilabel"
                           : type == "regression"               ? "regression"
                                                                : "";
  if (*task == 0) return spec;
  spec.objective.task.suggest(task);
  log.note(cat("task: ", task, ", problem_type of '", printable(path), "' (`task` chooses another)"));
  return spec;
}

}  // namespace amp
