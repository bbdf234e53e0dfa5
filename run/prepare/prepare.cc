// prepare(): turns a RunSpec into a PreparedRun. The order matters: labels decide the head, the head decides which
// inputs the data must feed, and the data decide the longest batch and the steps. Everything that can fail without
// computing fails here, before the run's folder is written.
#include "run/prepare/prepare.h"

#include <algorithm>

#include "backend/interpreter.h"
#include "base/fs.h"
#include "base/number_text.h"
#include "base/setting_name.h"
#include "base/text.h"
#include "data/label_spelling.h"
#include "data/loader.h"
#include "run/data/bad_rows.h"
#include "run/data/data.h"
#include "run/data/features.h"
#include "run/data/groups.h"
#include "run/data/images.h"
#include "run/data/language_data.h"
#include "run/data/limits.h"
#include "run/data/repeated_files.h"
#include "run/folder/run_files.h"
#include "run/model/fixed_inputs.h"
#include "run/model/fixed_shapes.h"
#include "run/model/model_classes.h"
#include "run/model/model_file.h"
#include "run/model/model_metadata.h"
#include "run/model/operator_advice.h"
#include "run/model/probe.h"
#include "run/model/unknown_task.h"
#include "run/prepare/calibrate_plan.h"
#include "run/prepare/class_weights.h"
#include "run/prepare/config.h"
#include "run/prepare/data_notes.h"
#include "run/prepare/export_record.h"
#include "run/prepare/fed_checkpoint.h"
#include "run/prepare/finished_run.h"
#include "run/prepare/input_files.h"
#include "run/prepare/losses.h"
#include "run/prepare/processes.h"
#include "run/prepare/reference.h"
#include "run/settings/asked_objective.h"
#include "run/settings/settings.h"
#include "run/spec/spec.h"
#include "trainer/loop/resumed_schedule.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

// Returns the facts about the training data that the model's head depends on. Also fills in `labels` and `read`, a
// table of features, unless it has been read already.
DataFacts inspect_data(RunSpec& spec, std::shared_ptr<const FeatureTable>& read, DataLabels& labels, const Log& log) {
  DataFacts f;
  note_repeated_files(spec, log);
  const DataKind kind = data_kind(spec.data, spec.data.train);
  f.text = kind == DataKind::text;
  f.images = kind == DataKind::images;
  f.features = kind == DataKind::features;
  f.task = requested_task(spec.objective);
  if (kind == DataKind::tensors) return f;  // no head is needed: losses read the model's own outputs
  if (f.task == Task::none) f.task = task_from_name(spec.model.head);
  if (f.features) {
    if (!read) read = std::make_shared<const FeatureTable>(read_training_table(spec, f.task, log));
    if (f.task == Task::none) f.task = feature_task(spec.data, *read);
    labels.texts = feature_labels(spec.data, *read, f.task);
    return f;
  }
  f.sides = f.text && wants_sides(spec.objective);
  if (f.task == Task::none) f.task = f.sides ? sides_task(spec.objective) : text_task(spec);
  labels = read_labels(spec, spec.data.train, f.task, true);
  return f;
}

// Fails if `export_raw_rows` is set, but the data are not a table, or ONNX nodes cannot compute the features.
void require_raw_rows(const RunSpec& spec, const DataFacts& facts) {
  if (!*spec.output.export_raw_rows) return;
  if (!facts.features)
    fail(Exit::usage, "E_USAGE", "`export_raw_rows` is for tables of features, `train` names other data",
         "leave it out, or name the table's column with `target`");
  if (spec.data.tables.feature_scaling == "quantiles")
    fail(Exit::unsupported, "E_RAW_ROWS", "`feature_scaling` quantiles is what no ONNX node computes",
         "leave `export_raw_rows` out, or take `feature_scaling` standard");
  if (*spec.output.export_precision != "fp32" || !spec.output.lora_exports_model())
    fail(Exit::usage, "E_USAGE", "`export_raw_rows` is for a whole model in `export_precision` fp32",
         "leave one of them out");
}

void check_facts(const PreparedRun& run, const DataLabels& labels, const SourceGraph& graph) {
  require_raw_rows(run.spec, run.facts);
  for (const std::string& what : suspicious_labels(labels.texts)) run.host.log.warning(what);
  require_known_task(run.spec, graph, run.facts.kind(), run.facts.task);
}

// Returns the DataFacts of the run that is resumed. Its weights were trained with the order of classes in these facts,
// even if the rules for that order have changed since.
DataFacts resumed_facts(const PreparedRun& run) {
  if (!run.folder || !run.folder->checkpoint() || !path_exists(run.folder->work() + "/" + kExportRecord)) return {};
  return read_export_record(run.folder->work()).facts;
}

void open_data(PreparedRun& run, std::shared_ptr<const FeatureTable> table) {
  const SourceGraph& g = run.graph();
  Objective& objective = run.ready.objective;
  DataNeeds needs;
  needs.training = true;
  needs.task = run.facts.kind() != DataKind::tensors ? run.ready.task : objective.task;
  needs.inputs = fed_inputs(g, needed_inputs(g, run.ready.outputs));
  const LossSpec* const loss = measured_loss(objective);
  if (run.facts.images && task_rule(needs.task).has_masks() && loss)
    needs.mask_classes = classes_of_output(g, g.find(loss->outputs.at(0)), needs.task);
  if (run.facts.images)
    run.spec = with_transforms(run.spec, g, needs, read_image_table(run.spec, run.spec.data.train), run.host.log);
  const RunSpec& spec = run.spec;
  needs.labels = objective.losses.labels();
  needs.rows_per_item = rows_per_item(objective.losses);
  needs.classes = run.facts.classes;
  needs.sides = run.facts.sides;
  run.teacher = open_teacher(spec, objective.losses, run.host.log);
  if (run.teacher) {
    objective.teacher = run.teacher->teacher.get();
    needs.more_inputs = run.teacher->inputs(input_specs(g, needs.inputs));
  }
  if (run.facts.text) check_vocabulary(spec, g, needs.inputs, run.host.log);
  needs.log = run.host.log;
  needs.skipped = &run.skipped;
  if (run.facts.features) {
    needs.features = run.features = learn_features(spec, *table, g, needs, run.host.log);
    note_scaled_numbers(spec, run.ready.model, *run.features, run.host.log);
    needs.table = std::move(table);
    objective.target = run.features->target_transform;
    require_outputs(g, objective.losses, needs.classes.names);
  }
  run.data.text = run.facts.text;
  run.data.train = open_dataset(spec, spec.data.train, g, needs, spec.schedule.batch_size);
  if (*spec.data.val_split > 0) run.data.train = with_groups(spec, spec.data.train, std::move(run.data.train));
  const auto cut = [&](std::unique_ptr<Dataset>& data, int64_t limit) {
    const int64_t together = rows_in_turn(objective.losses, *data);
    data = limited(std::move(data), limit, spec, together);
  };
  cut(run.data.train, spec.data.limit_train);
  needs.training = false;
  needs.log_matches = true;
  needs.table = nullptr;
  needs.column_hint = "where `val` calls its columns otherwise: `val_text_columns`, `val_label_column`";
  if (!spec.data.val.empty()) {
    const RunSpec as_val = validation_spec(spec);
    run.data.val =
        with_groups(as_val, spec.data.val, open_dataset(as_val, spec.data.val, g, needs, spec.evaluation_rows()));
  }
  split_validation(spec, run.data);
  if (loss)
    balance_class_weights(objective.losses, *run.data.train,
                          classes_of_output(g, g.find(loss->values().front()), needs.task), objective.classes,
                          run.host.log);
  if (run.data.val) cut(run.data.val, spec.data.limit_val);
  check_classes_left(spec.data, needs.classes.names, run.data, run.host.log);
}

void check_samples(PreparedRun& run) {
  const RunSpec& spec = run.spec;
  const Losses& losses = run.ready.objective.losses;
  int64_t longest = 0;
  for (const Dataset* d : {run.data.train.get(), run.data.val.get()}) {
    if (!d) continue;
    const bool training = d == run.data.train.get();
    if (!training) check_ranges(run.data.train->input_ranges(), d->input_ranges(), spec.data.val, run.host.log);
    check_labels(run.graph(), losses, *d);
    if (training) log_cosine_targets(losses, *d, run.host.log);
    const int64_t rows = spec.data.text.in_tokens ? 0 : spec.schedule.batch_size;
    check_pairs(losses, *d, training ? rows : spec.evaluation_rows(), training && spec.data.shuffle);
    longest = std::max(longest, longest_of(spec.data.text, *d));
  }
  note_batch_norms(spec, run.graph(), run.data, run.host.log);
  if (run.facts.text) require_length(run.graph(), run.ready.outputs, longest);
}

PrecisionPlan plan_of(PreparedRun& run, const std::string& work) {
  const RunSpec& spec = run.spec;
  const SourceGraph& g = run.graph();
  if (run.mode != Mode::measure_plan && !measures_plan(spec.precision))
    return choose_plan(spec.precision, run.job(), g, run.host.log);
  const std::string earlier = work + "/precision_plan.json";  // the plan of the run that is resumed
  if (run.folder && run.folder->checkpoint() && path_exists(earlier))
    return decide(g, load_op_list(earlier), *spec.precision.use_bf16 ? DType::bf16 : DType::f16);
  return calibrate_plan(spec, run.job(), g, run.ready.objective, *run.data.train, run.data.text, run.host.log).plan;
}

// Checks the checkpoint against the settings and restores its schedule. Called before anything is written.
void restore(PreparedRun& run, Checkpoint& checkpoint) {
  adopt_fed_checkpoint(checkpoint, run.config.fixed, *run.data.train, run.config.sampler, run.host.log);
  require_same(checkpoint.hashes, run.config.fixed);
  const OutputSpec& output = run.spec.output;
  // If a run continues in another folder, that folder may lack the best checkpoint.
  if (run.folder && output.export_weights == "best" && output.resume == "auto")
    verify_best(run.folder->work() + "/checkpoints", checkpoint);
  run.config.schedule = resumed_schedule(run.config.schedule, checkpoint,
                                         resume_schedule_from_name(run.spec.output.resume_schedule), run.host.log);
}

}  // namespace

void require_length(const SourceGraph& g, const std::vector<int>& outputs, int64_t longest, const std::string& hint) {
  const ParamTable table(g);
  const auto fits = [&](int64_t s) {
    try {
      probe_shapes(g, table, probe_options(g, outputs, s), cpu_evaluator());
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  if (!fits(3) || fits(longest)) return;  // the training graph reports other errors better
  int64_t ok = 3, bad = longest;
  while (bad - ok > 1) (fits((ok + bad) / 2) ? ok : bad) = (ok + bad) / 2;
  fail(Exit::data, "E_DATA_LENGTH", cat("the longest sequence has ", longest, " tokens, the model takes at most ", ok),
       hint.empty() ? cat("cut longer texts with `max_seq_len` ", ok) : hint);
}

void require_generated_length(const SourceGraph& g, int logits, int64_t fixed, int64_t longest, const std::string& hint,
                              const std::string& fixed_hint) {
  if (fixed == 0) return require_length(g, {logits}, longest, hint);
  if (longest > fixed)
    fail(Exit::usage, "E_SEQ_LEN", cat("prompt and new tokens are ", longest, ", the model takes ", fixed), fixed_hint);
}

int64_t longest_of(const TextSpec& text, const Dataset& data) {
  int64_t n = 0;
  for (const int32_t l : data.lengths()) n = std::max<int64_t>(n, l);
  const int64_t padded = (n + text.pad_to_multiple - 1) / text.pad_to_multiple * text.pad_to_multiple;
  return *text.max_seq_len > 0 ? std::min(padded, std::max(n, *text.max_seq_len)) : padded;
}

// Returns a factor of the learning rate for each B (LoRA+).
static std::map<std::string, double> lora_rates(const SourceGraph& g, const Trainable& trainable) {
  std::map<std::string, double> rates;
  for (const LoraAdapter& a : trainable.lora) rates[g.value(a.b).name] = trainable.lora_lr_ratio;
  return rates;
}

PreparedModel prepare_model(const RunSpec& spec, Job job, Imported model, const DataFacts& facts, const Log& log) {
  PreparedModel out;
  out.model = std::move(model);
  out.task = facts.task;
  SourceGraph& g = out.model.graph;
  ShapeFixing shapes(g);  // created before the head search, which binds the graph
  shapes.fix(spec.model.output.empty() || g.find(spec.model.output) < 0 ? g.outputs
                                                                        : std::vector<int>{g.find(spec.model.output)});
  const bool wants_head = facts.text || facts.images || !spec.model.cut_at.empty() || !spec.model.head_from.empty();
  const TaskRule& rule = task_rule(out.task);
  const int64_t classes =  // 0 if the target of a table is a number
      facts.features ? 0 : rule.outputs_for(static_cast<int64_t>(facts.classes.size()));
  const SurgeryResult shaped = apply_surgery(spec, job, out.model, classes,
                                             facts.sides  ? "embedding"
                                             : wants_head ? rule.head
                                                          : "none");
  for (const std::string& line : shaped.lines) log.info(line);
  if (out.task == Task::none && !shaped.outputs.empty()) out.task = task_from_name(shaped.head);
  const std::string head =
      shaped.outputs.empty() || !spec.model.output.empty() ? std::string() : shaped.outputs.front();
  out.objective = choose_objective(spec, g, head, out.task, log, true);
  out.objective.classes = facts.classes.names;
  if (const LossSpec* const loss = measured_loss(out.objective);
      loss && facts.kind() == DataKind::tensors && has_named_classes(out.objective.task) &&
      spec.model.head_from.empty() && spec.model.cut_at.empty())
    out.objective.classes = named_classes(spec, out.model, out.objective.task, *loss, log).names;
  out.objective.answers = answer_options(spec.data.text);
  name_class_weights(out.objective.losses, out.objective.classes);
  out.outputs = values_of(g, out.objective.losses);
  require_known_operators(g, out.outputs);
  if (!shapes.looked() || shapes.found().rows > 0 || shapes.found().length > 0) shapes.fix(out.outputs);
  log_fixed_shapes(shapes.found(), log);
  tie_rows(spec.model, g, out.outputs, log);
  out.trainable = make_trainable_with_reference(spec, out.model, out.outputs, out.objective.losses, log);
  const auto rates = lora_rates(g, out.trainable);
  if (job == Job::train) out.groups = group_parameters(spec.optimization, out.model.layers, g, rates);
  return out;
}

// Logs a note that the default rate is for pretrained models, if the weights are random.
static void hint_at_rate(const PreparedRun& run) {
  if (run.mode != Mode::train || *run.spec.optimization.lr != *RunSpec().optimization.lr ||
      !never_trained(*run.ready.model.doc))
    return;
  run.host.log.note(cat("the model's weights are drawn, and `lr` ", *run.spec.optimization.lr,
                        " is for fine-tuning: from nothing 1e-3 and more is usual; `lr_range_test` finds a rate"));
}

static void note_scaled_rate(const PreparedRun& run) {
  if (run.mode != Mode::train || run.spec.optimization.lr_base_scale == "none") return;
  run.host.log.note(cat("`lr_base_scale` ", run.spec.optimization.lr_base_scale, ": the peak rate is ",
                        number_text(run.config.schedule.lr), ", ", number_text(*run.spec.optimization.lr), " at ",
                        run.spec.optimization.lr_base_size, " samples a step"));
}

// Resolves a model folder to its files. For text data, a run that starts from another run's model uses that run's
// tokenizer.
static RunSpec with_files_of_model(const RunSpec& given, const Log& log) {
  RunSpec spec = with_model_files(given, log);
  refuse_merged_adapter(spec.model);
  note_adapter_beside(spec.model, log);
  if (spec.data.train.empty() || data_kind(spec.data, spec.data.train) != DataKind::text) return spec;
  return with_run_tokenizer(std::move(spec), log);
}

// Creates the model if `model` names an architecture for tables. Returns the settings with its file, and the table.
static RunSpec with_table_model(PreparedRun& run, const RunSpec& given, std::shared_ptr<const FeatureTable>& table) {
  if (!wants_table_model(given)) return given;
  const OutputSpec& output = given.output;
  const bool kept = run.mode == Mode::train;
  if (kept && run.host.ranks->is_root() && output.resume == "none" && !output.overwrite)
    OutputFolder({output.output_dir, output.resume, false, {}});  // refuses the folder before anything is written
  const ReadTable read = read_for_model(with_label_file(given), true, run.host.log);
  run.created = create_run_model(read, kept, run.host.log);
  table = read.table;
  RunSpec spec = read.spec;
  spec.model.model = run.created->path();
  return spec;
}

std::unique_ptr<PreparedRun> prepare(const RunSpec& asked, const Host& host, Mode mode) {
  auto run = std::make_unique<PreparedRun>();
  run->host = host;
  run->mode = mode;
  std::shared_ptr<const FeatureTable> table;  // read once, used by inspection and by the dataset
  const RunSpec given = with_table_model(*run, with_skipping(asked, {asked.data.train, asked.data.val}), table);
  RunSpec spec = with_start_token(
      with_letters(with_label_file(with_processes(with_files_of_model(given, host.log), host)), host.log), host.log);
  set_threads(spec.device, host.log);
  requested_losses(spec.objective);
  requested_groups(spec.optimization);
  require_one_kind(spec.data);
  Imported model = open_model(spec, run->job(), host.log);
  run->spec = spec = with_conversations(spec, spec.data.train, host.log);
  if (data_kind(spec.data, spec.data.train) == DataKind::tensors)
    bind_fixed_inputs(model.graph, {spec.data.train, spec.data.val}, false, host.log);
  if (mode == Mode::train && host.ranks->is_root()) {
    OutputRequest request{spec.output.output_dir, spec.output.resume, spec.output.overwrite, {}};
    for (const auto& [name, path] : input_files(spec)) request.inputs.emplace_back(setting_name(name), path);
    run->folder.emplace(std::move(request), host.log);
  }
  DataLabels labels;
  run->facts = inspect_data(run->spec, table, labels, host.log);
  check_facts(*run, labels, model.graph);
  if (run->facts.kind() != DataKind::tensors && has_named_classes(run->facts.task)) {
    const DataFacts before = resumed_facts(*run);
    ClassOrder order =
        training_classes(run->spec, model, run->facts.task, run->facts.kind(), labels, before.classes.names, host.log);
    run->facts.classes = std::move(order.classes);
    run->facts.class_source = before.class_source.empty() ? order.source : before.class_source;
  }
  run->ready = prepare_model(run->spec, run->job(), std::move(model), run->facts, host.log);
  for (RunSpec* s : {&spec, &run->spec})
    fit_batch_size(*s, run->graph(), rows_per_sample(spec, run->facts.task, run->facts.sides),
                   s == &spec ? host.log : Log());
  hint_at_rate(*run);
  open_data(*run, std::move(table));
  check_samples(*run);
  const std::string work = run->folder ? run->folder->work() : spec.output.output_dir;
  run->plan = plan_of(*run, work);
  if (padding_counts(run->graph(), run->ready.objective.losses, *spec.model.batchnorm == "train")) {
    run->data.whole_batches = true;
    host.log.note("the last batch of an epoch is left out where it is short: its padding would count");
  }
  run->config = trainer_config(spec, run->plan, run->ready.objective, run->data);
  note_scaled_rate(*run);
  run->config.groups = [groups = run->ready.groups](FlatLayout& layout) { apply_groups(groups, layout); };
  if (host.ranks->size() > 1) {
    run->config.ranks = host.ranks;
    run->config.sampler.rank = host.ranks->rank();
    share_start(*run);
  }
  std::optional<Checkpoint>& from = run->folder ? run->folder->checkpoint() : run->checkpoint;
  if (from) restore(*run, *from);
  run->config.output_dir = work;
  run->config.log = host.log;
  run->config.on_progress = host.progress;
  run->config.doing = host.doing;
  return run;
}

Tensors first_batch(PreparedRun& run) {
  SamplerOptions first = run.config.sampler;
  first.ranks = 1;
  first.rank = 0;
  first.order = Order::by_length;
  Sampler sampler = make_sampler(*run.data.train, first);
  const LoadedWindow window = load_window(*run.data.train, sampler.next());
  return to_tensors(window.batches.at(0), run.ready.objective.teacher);
}

}  // namespace amp
