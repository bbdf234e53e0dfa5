// The verb predict: runs a model on a file of tensors (all outputs are written) or on rows of text, images or features
// (one prediction per row). The task comes from `task`, from the model's metadata, or from names and shapes of its
// outputs. Rows run sorted by length and are written in the order of the file.
#include "run/evaluate/predict.h"

#include <algorithm>
#include <cstring>

#include "base/activity.h"
#include "base/npz.h"
#include "base/text.h"
#include "data/image_files.h"
#include "data/loader.h"
#include "importer/discover/output_activation.h"
#include "run/data/data.h"
#include "run/data/features.h"
#include "run/data/images.h"
#include "run/data/mask_files.h"
#include "run/evaluate/finite_outputs.h"
#include "run/evaluate/prediction_file.h"
#include "run/model/fixed_inputs.h"
#include "run/model/fixed_shapes.h"
#include "run/model/model_classes.h"
#include "run/model/model_metadata.h"
#include "run/model/operator_advice.h"
#include "run/model/surgery.h"
#include "run/prepare/common.h"
#include "run/prepare/finished_run.h"
#include "run/prepare/losses.h"
#include "run/prepare/objective.h"
#include "run/prepare/prepare.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"
#include "trainer/losses/loss.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

// Concatenates the tensors of an output in several batches of `fixed` rows. The axis is 0 if its size is a multiple of
// `fixed`, otherwise the first axis of size `fixed`. An output without such a dimension is the same in every batch.
HostTensor joined(const std::vector<HostTensor>& parts, int64_t fixed) {
  Dims dims = parts.front().dims();
  size_t axis = 0;
  if (!dims.empty() && dims[0] % fixed != 0)
    axis = static_cast<size_t>(std::find(dims.begin(), dims.end(), fixed) - dims.begin());
  if (axis >= dims.size()) return parts.back();
  dims[axis] = 0;
  for (const HostTensor& t : parts) dims[axis] += t.dims().at(axis);
  HostTensor out = HostTensor::empty(parts.front().dtype(), dims);
  const int64_t outer = numel(Dims(dims.begin(), dims.begin() + static_cast<int64_t>(axis)));
  auto* to = static_cast<char*>(out.mutable_data());
  for (int64_t o = 0; o < outer; ++o) {
    for (const HostTensor& t : parts) {
      const int64_t bytes = t.bytes() / outer;
      std::memcpy(to, static_cast<const char*>(t.data()) + o * bytes, static_cast<size_t>(bytes));
      to += bytes;
    }
  }
  return out;
}

// Runs the rows [from, to) of a batch. Inputs without one row per sample are passed whole.
Tensors forward_some(Session& session, const Tensors& batch, int64_t rows, int64_t from, int64_t to) {
  Tensors part = batch;
  for (auto& [name, t] : part) {
    if (t.rank() == 0 || t.dims()[0] != rows) continue;
    Dims dims = t.dims();
    dims[0] = to - from;
    const int64_t bytes = t.bytes() / rows;
    t = HostTensor(t.dtype(), dims, std::make_shared<HostTensor>(t), static_cast<const char*>(t.data()) + from * bytes);
  }
  return session.forward(session.source().outputs, part);
}

// Computes all outputs. A graph with a fixed batch size runs that many rows at a time.
Tensors forward_rows(Session& session, const Tensors& batch) {
  const SourceGraph& g = session.source();
  const int64_t fixed = fixed_rows(g);
  int64_t rows = 0;
  for (const int v : needed_inputs(g, g.outputs)) {
    const auto it = batch.find(g.value(v).name);
    if (it != batch.end() && it->second.rank() > 0) rows = std::max(rows, it->second.dims()[0]);
  }
  if (fixed == 0 || rows <= fixed) return session.forward(g.outputs, batch);
  std::map<std::string, std::vector<HostTensor>> parts;
  for (int64_t at = 0; at < rows; at += fixed) {
    const int64_t to = std::min(rows, at + fixed);
    for (auto& [name, t] : forward_some(session, batch, rows, at, to)) parts[name].push_back(t);
  }
  Tensors out;
  for (const auto& [name, some] : parts) out[name] = joined(some, fixed);
  return out;
}

PredictReport predict_tensors(const RunSpec& spec, const std::string& inputs, const std::string& out, const Log& log) {
  require_tensor_file(out);
  Imported model = open_model(spec, Job::predict, log);
  bind_fixed_inputs(model.graph, {inputs}, true, log);
  SourceGraph& g = model.graph;
  require_known_operators(g, g.outputs);
  log_fixed_shapes(fix_shapes(g, g.outputs), log);
  const PrecisionPlan plan = choose_plan(spec.precision, Job::predict, g, log);
  Session session(g, session_options(spec, Job::predict, plan, log));
  release_parameters(model);
  const Tensors batch = read_batch(inputs, model.graph, log);
  InputRanges ranges;
  for (const int v : g.inputs) {
    const auto it = batch.find(g.value(v).name);
    if (it != batch.end() && is_float(g.value(v).dtype)) ranges[it->first] = range_of(it->second);
  }
  check_ranges(recorded(*model.doc).ranges, ranges, inputs, log);
  std::vector<NamedTensor> tensors;
  FiniteOutputs finite;
  for (auto& [name, t] : forward_rows(session, batch)) {
    finite.observe(name, t);
    tensors.push_back({name, t.dtype() == DType::f64 && spec.precision.dtype != "fp64" ? t.cast(DType::f32) : t});
  }
  finite.warn(log);
  write_tensor_file(out, tensors);
  return {.outputs = tensors.size()};
}

// Returns the graph's declared floating outputs.
std::vector<const SourceValue*> declared_floating_outputs(const SourceGraph& g) {
  std::vector<const SourceValue*> out;
  for (const int o : g.outputs) {
    if (is_float(g.value(o).dtype) || !g.value(o).dtype_known) out.push_back(&g.value(o));
  }
  return out;
}

bool called(const SourceValue& v, const std::string& part) { return v.name.find(part) != std::string::npos; }

// True for an output [B, N] that ends in a Softmax, or whose N equals a known number of class names.
bool is_classifier(const SourceGraph& g, const SourceValue& v, const std::vector<KnownClasses>& known) {
  if (!v.rank_known || v.dims.size() != 2) return false;
  const auto end = output_activation(g, g.find(v.name));
  return (end && end->op != "Sigmoid") || std::any_of(known.begin(), known.end(), [&](const KnownClasses& k) {
           return static_cast<int64_t>(k.names.size()) == v.dims[1].value;
         });
}

// Infers the task of a model without metadata from its outputs' names, ranks and final activations.
Task task_by_outputs(const SourceGraph& g, const std::vector<KnownClasses>& known) {
  const std::vector<const SourceValue*> all = declared_floating_outputs(g);
  const auto has = [&](const char* part, size_t rank) {
    return std::any_of(all.begin(), all.end(), [&](const SourceValue* v) {
      return called(*v, part) && v->rank_known && v->dims.size() == rank;
    });
  };
  if (has("start_logits", 2) && has("end_logits", 2)) return Task::span;
  for (const SourceValue* v : all) {
    if (!called(*v, "logits") || !v->rank_known) continue;
    if (v->dims.size() == 2) return v->dims[1].value == 1 ? Task::regression : Task::classification;
  }
  if (all.size() == 1 && is_classifier(g, *all[0], known)) return Task::classification;
  return has("logits", 3) ? Task::none : Task::retrieval;
}

// Infers the task of a model of images or feature rows from the rank and final activation of its first floating output.
Task task_of_rows(const SourceGraph& g) {
  const std::vector<const SourceValue*> all = declared_floating_outputs(g);
  if (all.empty() || !all[0]->rank_known) return Task::classification;
  const std::vector<Dim>& d = all[0]->dims;
  if (d.size() == 4) return Task::segmentation;
  const bool one = d.size() == 2 && d[1].value == 1;
  return one && !output_activation(g, g.find(all[0]->name)) ? Task::regression : Task::classification;
}

Task choose_task(const RunSpec& spec, const ModelRecord& record, const Imported& model, DataKind kind, const Log& log) {
  const SourceGraph& g = model.graph;
  if (const Task asked = requested_task(spec.objective); asked != Task::none) return asked;
  if (record.task != Task::none) return record.task;
  if (kind != DataKind::text) return task_of_rows(g);
  if (wants_sides(spec.objective)) return sides_task(spec.objective);
  if (is_language_model(spec)) return language_task(spec);
  const Task task = task_by_outputs(g, known_classes(spec.model, model));
  if (task == Task::none)
    fail(Exit::usage, "E_TASK", "the model does not say whether its outputs are tags of words or a language model's",
         "say `task` token, `task` language, or `loss` masked_lm");
  log.info(cat("task: ", name_of(task), ", by the model's outputs (`task` chooses another)"));
  return task;
}

// Returns retrieval, whose predictions are embeddings, if a text comparison model is given a single text column; else
// `task`.
Task as_asked(Task task, bool sides, const RunSpec& spec) {
  return task_rule(task).has_numbers() && sides && spec.data.text.text_columns->size() == 1 ? Task::retrieval : task;
}

// Returns the loss whose outputs determine the prediction.
LossSpec choose_loss(RunSpec spec, const SourceGraph& g, const std::string& head, Task task, const Log& log) {
  const std::vector<LossSpec> asked = requested_losses(spec.objective).parts;
  const bool own =
      std::any_of(asked.begin(), asked.end(), [](const LossSpec& s) { return loss_rule(s.kind).own_output; });
  // If the model computes this loss itself, predictions need its other outputs.
  if (own) spec.objective.loss = RunSpec::Texts{};
  const Log quiet([&log](Level level, const std::string& text) {
    if (level >= Level::note) log.say(level, text);
  });
  const Objective objective = choose_objective(spec, g, head, task, quiet);
  const LossSpec* const loss = measured_loss(objective);
  if (!loss)
    fail(Exit::usage, "E_TASK", "the task does not follow from the model's loss",
         "give the task that the model is for with `task`");
  return *loss;
}

std::vector<int> values_read(const SourceGraph& g, const LossSpec& loss) {
  std::vector<int> out;
  for (const std::string& name : loss.values()) out.push_back(g.find(name));
  return out;
}

// Returns the number of rows per batch, which is 1 if the file fixes the batch dimension to 1.
int64_t batch_rows(const RunSpec& spec, const SourceGraph& g, const std::vector<int>& inputs) {
  if (fixed_rows(g) > 0) return spec.evaluation_rows();
  for (const int v : inputs) {
    if (g.value(v).rank_known && !g.value(v).dims.empty() && g.value(v).dims[0].value == 1) return 1;
  }
  return spec.evaluation_rows();
}

TextRows read_rows(const RunSpec& spec, const std::string& inputs, Task task) {
  if (data_kind(spec.data, inputs) == DataKind::images) {
    TextRows rows;
    rows.table = read_image_table(spec, inputs, false);
    rows.names = rows.table->names();
    return rows;
  }
  const bool of_images = *spec.data.images.eval_transforms != "auto";
  if (spec.data.text.text_columns->empty() && task_rule(task).from_table())
    fail(Exit::usage, "E_USAGE",
         of_images ? "the model was trained on images, a table needs `image_column`"
                   : "text needs `text_columns`: the model does not say which it was trained on",
         cat("name the column that holds ", of_images ? "paths of images" : "the text"));
  return read_text_rows(spec, inputs, task, false);
}

// Opens the table as a dataset. Moves the table into `rows` after the features are computed.
std::unique_ptr<Dataset> open_features(const RunSpec& spec, const std::string& inputs, TextRows& rows,
                                       const SourceGraph& g, const DataNeeds& needs, const Log& log) {
  FeatureTable table = read_feature_table(spec, inputs, needs.features.get(), log);
  std::unique_ptr<Dataset> data = open_feature_dataset(table, g, needs);
  rows.table = std::move(table).release();
  rows.names = rows.table->names();
  return data;
}

std::unique_ptr<Dataset> open_texts(const RunSpec& spec, const TextRows& rows, const SourceGraph& g,
                                    const DataNeeds& needs, const Log& log) {
  check_vocabulary(spec, g, needs.inputs, log);
  return open_text_dataset(spec, rows, g, needs);
}

void require_predictions(Task predicted, Task asked, DataKind kind) {
  if (has_predictions(predicted)) return;
  const char* of = kind == DataKind::images ? "images" : kind == DataKind::text ? "texts" : "tables";
  fail(Exit::usage, "E_TASK", cat("`task` ", name_of(asked), " predicts nothing for ", of),
       "feed the model with tensors: a .safetensors or .npz file");
}

// Predicts rows in batches of similar length. Counts non-finite values, except per-token outputs of texts, where
// padding would count too.
void predict_batches(Session& session, const std::vector<int>& outputs, const LossSpec& loss, const Dataset& data,
                     int64_t rows, Predictions& predictions, const Log& log) {
  FiniteOutputs finite;
  SamplerOptions order;
  order.order = Order::by_length;
  order.batch_size = rows;
  WindowLoader loader(data, make_sampler(data, order), 1);
  Activity predicting("predicting", "rows", data.size());
  while (const auto window = loader.next()) {
    const Batch& batch = window->batches.at(0);
    Tensors computed = session.forward(outputs, batch.inputs);
    std::vector<HostTensor> values;
    for (const std::string& name : loss.values()) {
      values.push_back(computed.at(name));
      if (data.lengths().empty() || values.back().rank() < 3) finite.observe(name, values.back());
    }
    predictions.add(values, batch);
    predicting.add(batch.rows);
  }
  finite.warn(log);
}

// Returns the output with embeddings, adding pooling if the model has none. Returns "" if `output` or the loss names an
// output.
std::string embedding_output(const RunSpec& spec, Imported& model, const Log& log) {
  return lacks_output(spec.model, spec.objective)
             ? apply_embedding_surgery(spec, Job::predict, model, log).outputs.front()
             : std::string();
}

void print_notes(const TextRows& rows, const Log& log) {
  if (!rows.table) return;
  for (const std::string& note : rows.table->notes()) log.note(note);
}

// Returns the settings: the user's, else those in the model's metadata, else those that the model's files suggest.
RunSpec settings_of(const RunSpec& asked, const ModelRecord& record, const SourceGraph& g, const std::string& inputs,
                    const Log& log) {
  RunSpec spec = with_recorded(with_letters(asked, Log()), record, log);
  spec.data.trim_labels = false;  // rows are written unchanged
  if (record.features.empty()) spec = with_fed_columns(spec, g, inputs);
  const bool text = data_kind(spec.data, inputs) == DataKind::text;
  return record.task == Task::none && text ? with_problem_type(spec, log) : spec;
}

void warn_of_cut(int64_t cut, int64_t rows, const TextSpec& text, const Log& log) {
  if (cut == 0) return;
  log.warning(cat("W_CUT: ", with_thousands(cut), " of ", with_thousands(rows), " texts are longer than `max_seq_len` ",
                  *text.max_seq_len, ": their last words have no tag"));
}

// Returns the data that the predictions of a task refer to. The result holds views of the arguments.
PredictionContext context_of(const TextSpec& text, const DataNeeds& needs, const TextRows& rows, const Dataset& data,
                             const Tokenizer* tokenizer) {
  PredictionContext context{rows.size(), needs.classes.names, rows.key.get(), answer_options(text), rows.tagged, {}, {},
                            {}};
  if (needs.features) context.target = needs.features->target_transform;
  context.source_rows = data.source_rows();
  if (needs.sides) context.text_columns = *text.text_columns;
  context.tokenizer = tokenizer;
  context.top_k = text.top_k;
  return context;
}

PredictReport predict_rows(const RunSpec& given, const std::string& inputs, const std::string& out, const Log& log) {
  if (!names_folder(out)) require_prediction_file(out);
  const RunSpec asked = with_label_file(with_run(given, log));
  Imported model = open_model(asked, Job::predict, log);
  SourceGraph& g = model.graph;
  const ModelRecord record = recorded(*model.doc);
  RunSpec spec = settings_of(asked, record, g, inputs, log);
  DataNeeds needs;
  const DataKind kind = data_kind(spec.data, inputs);
  const bool images = kind == DataKind::images, text = kind == DataKind::text;
  const Task task = choose_task(spec, record, model, kind, log);
  needs.sides = text && wants_sides(spec.objective) && (task_rule(task).has_numbers() || task_rule(task).embeddings);
  needs.task = as_asked(task, needs.sides, spec);
  require_predictions(needs.task, task, kind);
  const bool masks = names_folder(out);
  if (masks && !task_rule(needs.task).has_masks()) require_prediction_file(out);
  const std::string head =
      text && (needs.sides || task_rule(needs.task).embeddings) ? embedding_output(spec, model, log) : std::string();
  const LossSpec loss = choose_loss(spec, g, head, task_rule(needs.task).embeddings ? needs.task : task, log);
  const std::vector<int> outputs = values_read(g, loss);
  require_known_operators(g, outputs);
  log_fixed_shapes(fix_shapes(g, outputs), log);
  fit_evaluation_rows(spec, g, rows_per_sample(spec, needs.task, needs.sides));
  needs.inputs = needed_inputs(g, outputs);
  if (has_named_classes(needs.task)) needs.classes = model_classes(spec, model, needs.task, loss, {}, log).classes;
  needs.labeled = false;
  needs.log = log;
  needs.column_hint = "name this file's columns of text with `text_columns`, in the order of those trained on";
  if (kind == DataKind::features) needs.features = features_of(spec.data, record, log);
  TextRows rows;
  if (!needs.features) rows = read_rows(spec, inputs, needs.task);
  print_notes(rows, log);
  if (images) spec = with_transforms(spec, g, needs, *rows.table, log);
  const auto data = needs.features ? open_features(spec, inputs, rows, g, needs, log)
                    : images       ? open_image_dataset(spec, *rows.table, g, needs)
                                   : open_texts(spec, rows, g, needs, log);
  if (images) check_ranges(record.ranges, data->input_ranges(), inputs, log);
  if (text) check_tokenizer(spec, record, log);
  if (text) require_length(g, outputs, longest_of(spec.data.text, *data));
  const PrecisionPlan plan = choose_plan(spec.precision, Job::predict, g, log);
  Session session(g, session_options(spec, Job::predict, plan, log));
  release_parameters(model);
  std::unique_ptr<Tokenizer> tokenizer;
  if (task_rule(needs.task).text == TextForm::own_tokens)
    tokenizer = open_tokenizer(tokenizer_path(spec), tokenizer_options(spec.data.text));
  const std::unique_ptr<Predictions> predictions =
      make_predictions(needs.task, loss, context_of(spec.data.text, needs, rows, *data, tokenizer.get()));
  predict_batches(session, outputs, loss, *data, batch_rows(spec, g, needs.inputs), *predictions, log);
  warn_of_cut(predictions->cut(), rows.size(), spec.data.text, log);
  if (masks) {
    write_masks(out, spec.data.images,
                image_paths(*rows.table, image_path_column(spec.data.images), spec.data.images.image_root),
                *predictions);
  } else {
    write_predictions(out, rows, *predictions);
  }
  return {.rows = rows.size(), .task = name_of(needs.task)};
}

}  // namespace

PredictReport predict(const RunSpec& spec, const std::string& inputs, const std::string& out, const Log& log) {
  set_threads(spec.device, log);
  return data_kind(spec.data, inputs) == DataKind::tensors ? predict_tensors(with_run(spec, log), inputs, out, log)
                                                           : predict_rows(spec, inputs, out, log);
}

}  // namespace amp
