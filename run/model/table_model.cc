// Models with the sizes of a table. The table is read and its features are fitted on the rows that train, as a training
// run does (run/data/features.h), so the sizes equal those that the run will require. A run that creates its model
// writes it beside the output folder, because the folder may contain only files that the run's record covers. The file
// depends only on data, settings and seed, so a resumed run writes the same bytes.
#include "run/model/table_model.h"

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/fs.h"
#include "base/remove_quietly.h"
#include "base/setting_name.h"
#include "base/text.h"
#include "data/label_columns.h"
#include "importer/read/import.h"
#include "run/data/bad_rows.h"
#include "run/data/features.h"
#include "run/model/model_metadata.h"
#include "run/settings/asked_objective.h"
#include "run/settings/settings.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

constexpr int64_t kSplitRows = 100;                // tables with fewer rows are split only if `val_split` is given
constexpr const char* kHidden = "[200, 100]";      // sizes of the hidden layers, as in fastai's tabular_learner
constexpr double kFirstRate = 1e-3, kShare = 0.1;  // learning rate of new weights; share of rows that is held out

// Replaces the defaults that suit pretrained models, and logs the changed settings in one line.
RunSpec with_first_settings(RunSpec spec, int64_t rows, Task task, const Log& log) {
  const RunSpec before = spec;
  spec.optimization.lr.suggest(kFirstRate);
  spec.model.batchnorm.suggest("train");
  if (spec.data.val.empty() && rows >= kSplitRows) spec.data.val_split.suggest(kShare);
  if (task_rule(task).has_numbers()) spec.data.tables.target_transform.suggest("standard");
  const bool plain = !spec.output.export_precision.asked() || *spec.output.export_precision == "fp32";
  if (plain && spec.data.tables.feature_scaling != "quantiles") spec.output.export_raw_rows.suggest(true);
  std::vector<std::string> changed;
  for (const char* name : {"lr", "batchnorm", "val_split", "target_transform", "export_raw_rows"}) {
    const Setting& s = setting_named(name);
    const std::string value = value_text(value_of(spec, s));
    if (value != value_text(value_of(before, s))) changed.push_back(cat(setting_name(name), " ", value));
  }
  if (!changed.empty()) log.info(cat("settings for a new model (name them to overrule it): ", join(changed, ", ")));
  return spec;
}

// Refuses to replace any file except an untrained model that `create` made.
void refuse_other_file(const std::string& path) {
  if (!path_exists(path)) return;
  bool ours = false;
  try {
    ours = never_trained(*import_model(path).doc);
  } catch (const Error&) {
  }
  if (!ours)
    fail(Exit::usage, "E_OUTPUT_FOREIGN",
         cat("'", printable(path), "' is where the new model would be written, and it is not a new model"),
         "move the file, or give another `output_dir`");
}

}  // namespace

RunSpec with_table_target(RunSpec spec) {
  if (spec.data.train.empty() || (data_kind(spec.data, spec.data.train) != DataKind::text &&
                                  data_kind(spec.data, spec.data.train) != DataKind::features))
    fail(Exit::usage, "E_USAGE",
         cat("the sizes of '", spec.model.model, "' are derived from a table, and `train` names ",
             spec.data.train.empty() ? "none" : "other data"),
         "give `train` FILE.csv and `target` COLUMN");
  if (spec.data.tables.target->empty()) spec.data.tables.target = *spec.data.label_column;
  return spec;
}

bool is_table_architecture(const std::string& name) { return name == "tabular" || name == "mlp"; }

bool wants_table_model(const RunSpec& spec) {
  return is_table_architecture(spec.model.model) && !path_exists(spec.model.model);
}

ReadTable read_for_model(const RunSpec& given, bool training, const Log& log) {
  ReadTable out;
  out.spec = with_table_target(given.data.skipped ? given : with_skipping(given, {}));
  out.task = requested_task(out.spec.objective);
  FeatureTable table = read_training_table(out.spec, out.task, log);
  if (training) out.spec = with_first_settings(std::move(out.spec), table.rows(), out.task, log);
  out.labels.texts = feature_labels(out.spec.data, table, out.task);
  out.table = std::make_shared<const FeatureTable>(std::move(table));
  return out;
}

BuiltModel create_for_table(BuildSpec build, const ReadTable& read, const std::string& out, const Log& log) {
  const TaskRule& rule = task_rule(read.task);
  DataNeeds needs;
  needs.task = read.task;
  needs.classes = read.spec.data.labels->empty() ? read.labels.texts : *read.spec.data.labels;
  const Features features = fit_training_rows(read.spec, *read.table, needs);
  build.derived = fitting_config(build.model, features, needs);
  if (build.model == "tabular") build.derived.insert(build.derived.size() - 1, cat(", \"hidden\": ", kHidden));
  const BuiltModel built = create_model(build, out, log);
  const std::string target = printable(target_column(read.spec.data));
  log.info(cat(build.model, " for '", printable(read.spec.data.train), "': ", features.categories.size(),
               " categorical and ", features.numbers.size(), " continuous columns; target ", target, ": ",
               rule.has_numbers() ? std::string("a number") : cat(needs.classes.size(), " classes"), " (`task` ",
               rule.name, ")"));
  log.info(cat("configuration: ", build.derived));
  return built;
}

CreatedModel::CreatedModel(std::string path, bool kept) : path_(std::move(path)), kept_(kept) {}
CreatedModel::~CreatedModel() {
  if (!kept_) remove_quietly(path_.c_str());
}

std::unique_ptr<CreatedModel> create_run_model(const ReadTable& read, bool kept, const Log& log) {
  namespace fs = std::filesystem;
  BuildSpec build;
  build.model = read.spec.model.model;
  build.seed = static_cast<uint64_t>(read.spec.device.seed);
  std::string folder = read.spec.output.output_dir;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  std::string path =
      kept ? cat(folder, "-", build.model, ".onnx")
           : (fs::temp_directory_path() / cat("onnx-amp-", ::getpid(), "-", build.model, ".onnx")).string();
  if (kept) refuse_other_file(path);
  auto created = std::make_unique<CreatedModel>(std::move(path), kept);
  const BuiltModel built = create_for_table(build, read, created->path(), log);
  log.info(cat("new model", kept ? cat(" '", printable(created->path()), "'") : std::string(), ": ",
               with_thousands(built.parameters), " parameters, random weights"));
  return created;
}

}  // namespace amp
