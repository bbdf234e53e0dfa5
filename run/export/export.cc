// Exports without training: the weights of a run's checkpoints (verb export on a run folder), or a model file in
// another precision. The run's model is rebuilt from its file and the export record, so that the training data are not
// needed.
#include "run/export/export.h"

#include <filesystem>

#include "base/fs.h"
#include "base/remove_quietly.h"
#include "base/text.h"
#include "precision/safety.h"
#include "run/export/raw_rows.h"
#include "run/export/weights.h"
#include "run/folder/run_files.h"
#include "run/model/build.h"
#include "run/model/fixed_inputs.h"
#include "run/prepare/averages.h"
#include "run/prepare/engine_notes.h"
#include "run/prepare/export_record.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

// Returns the plan of the training run if the file's types depend on it (mixed), else an all-fp32 plan.
PrecisionPlan trained_plan(const std::string& folder, const SourceGraph& g, const std::string& precision) {
  if (precision != "mixed") return decide(g, preset("O0"), DType::f32);
  const OpList list = load_op_list(folder + "/precision_plan.json");
  return decide(g, list, list.dtype.value_or(DType::f32));
}

[[noreturn]] void no_weights(const std::string& fact, const std::string& hint) {
  fail(Exit::usage, "E_EXPORT_WEIGHTS", cat("the run has no ", fact), hint);
}

// Returns the checkpoint with the requested weights.
Checkpoint choose_checkpoint(const std::string& checkpoints, const std::string& weights, const Log& log) {
  Checkpoint newest = newest_checkpoint(checkpoints, log);
  if (weights != "best") return newest;
  const int64_t best = best_step_of(newest);
  if (best < 0) no_weights("best weights: it was not evaluated", "train with `val`, or export `export_weights` last");
  return best == newest.step ? newest : best_checkpoint(checkpoints, best);
}

// Checks that the run's model file exists and is unchanged. Checkpoints hold only the tensors that training changed.
void require_model(const ModelSpec& model, const Checkpoint& checkpoint) {
  if (!path_exists(model.model)) {
    fail(Exit::usage, "E_RUN_MODEL", cat("the run's model '", printable(model.model), "' is not there"),
         "put it back: an export is that file with trained weights in it");
  }
  const auto saved = checkpoint.hashes.find("model");
  if (saved != checkpoint.hashes.end()) require_same({*saved}, {{"model", model_sha256(model.model)}});
}

// Refuses to replace the model that the run trained from: without it, the run cannot be exported or resumed again.
void refuse_source(const std::string& model, const std::string& out) {
  std::error_code none;
  if (!std::filesystem::equivalent(model, out, none)) return;
  fail(Exit::usage, "E_OUTPUT_INPUT",
       cat("`out` '", printable(out), "' is the model that the run trained from, which later exports need"),
       "choose another file");
}

ExportedRun export_record(const ExportRecord& record, const std::string& folder, const std::string& weights,
                          const std::string& out, const Log& log) {
  const RunSpec& spec = record.spec;
  refuse_source(spec.model.model, out);
  const Log notes([&log](Level level, const std::string& text) {  // drops notes that the run printed at its start
    if (level >= Level::note) log.say(level, text);
  });
  std::string average;
  if (names_average(weights)) {
    OptimizerConfig averages;
    averages.ema_decays = ema_decays(spec.optimization);
    average = averages.average_name(average_named(spec.optimization, weights));
  }
  const Checkpoint checkpoint = choose_checkpoint(folder + "/checkpoints", weights, log);
  require_model(spec.model, checkpoint);
  Imported model = open_model(spec, Job::train, notes);
  set_fixed_inputs(model.graph, record.fixed);
  PreparedModel ready = prepare_model(spec, Job::train, std::move(model), record.facts, notes);
  const PrecisionPlan plan = trained_plan(folder, ready.model.graph, *spec.output.export_precision);
  auto held = std::make_unique<Session>(ready.model.graph, session_options(spec, Job::train, {}, notes));
  Session& session = *held;
  load_weights(session, checkpoint, record.trained);
  if (!average.empty()) load_average(session, checkpoint, average);
  if (!average.empty() && spec.optimization.swa_start >= 0)
    log.warning(
        "running statistics, if the model has any, are those of training: a run's own `export_weights` ema "
        "computes them anew for averaged weights");
  const bool trained = checkpoint.step > 0;
  const std::vector<TrainedTensor> tensors = trained_tensors(session);
  if (writes_model(spec.output, ready.trainable))
    export_weights(spec.output, ready, plan, tensors,
                   trained || record.facts.kind() != DataKind::tensors ? record.metadata : decltype(record.metadata){},
                   out, log);
  const WrittenModel written = export_adapters(spec.output, ready, tensors, spec.model.model, out);
  ExportedRun done;
  done.step = checkpoint.step;
  done.model = spec.model.model;
  done.written = writes_model(spec.output, ready.trainable) ? out : written.adapter;
  if (!spec.output.verify_export) return done;
  const ExportReference reference = export_reference(session, ready.objective.losses, record.batch);
  held.reset();  // frees memory for the exported file's session
  try {
    done.difference = compare_export(reference, written, ready.objective.losses, spec.output.export_types());
  } catch (const Error& e) {
    // Only a warning is printed, because rounding to the requested 16-bit types causes the difference.
    if (e.id() != "E_EXPORT_CHECK" || !one_of(spec.output.export_types(), {"fp16", "mixed"})) throw;
    log.warning(cat("W_EXPORT_CHECK: ", e.fact(), "; ", e.hint()));
  }
  return done;
}

}  // namespace

std::string export_target(const std::string& out) {
  if (!is_dir(out) && !out.ends_with('/')) return out;
  const std::filesystem::path folder(out);
  for (const char* name : kModelFiles) {
    if (!path_exists((folder / name).string())) continue;
    fail(Exit::usage, "E_OUTPUT_FOREIGN",
         cat("the folder `out` '", printable(out), "' has ", name, " already, which the export would replace"),
         "choose another folder for each export, or name the file: `out` FOLDER/NAME.onnx keeps exports of different "
         "names apart");
  }
  return (folder / "model.onnx").string();
}

ExportedRun export_run(const std::string& folder, const std::string& weights, const std::string& precision,
                       const std::string& out, const Log& log) {
  finish_interrupted(folder);
  try {
    ExportRecord record = read_export_record(folder);
    if (precision == "file") {
      record.spec.output.export_precision = RunSpec().output.export_precision;
    } else {
      record.spec.output.export_precision = precision;
    }
    record.spec.device.device = "cpu";
    return export_record(record, folder, weights, export_target(out), log);
  } catch (Error& e) {
    throw e.at(cat("in run '", printable(folder), "'"));
  }
}

ExportedRun export_checkpoint(const std::string& run, const std::string& weights, const std::string& folder,
                              const Log& log) {
  namespace fs = std::filesystem;
  const fs::path target = fs::path(folder).has_filename() ? fs::path(folder) : fs::path(folder).parent_path();
  const std::string between = (target.parent_path() / cat(".", target.filename().string(), ".onnx")).string();
  struct Removed {  // removes the intermediate files also after an exception
    const std::string& path;
    const std::string adapter = std::filesystem::path(path).replace_extension(".onnx_adapter").string(),
                      slots = slots_file(path), peft = peft_folder_of(path);
    ~Removed() {
      for (const std::string* p : {&path, &adapter, &slots, &peft}) remove_quietly(p->c_str());
    }
  } const removed{between};
  const ExportedRun done = export_run(run, weights, "file", between, log);
  write_checkpoint(between, folder, log, fs::absolute(done.model).parent_path().string());
  return done;
}

void export_file(const RunSpec& spec, const std::string& target, const Log& log) {
  const std::string out = export_target(target);
  const Imported model = open_model(spec, Job::write, log);
  ExportOptions e;
  e.precision = spec.output.export_types();
  e.inference_form = true;
  if (e.precision == "mixed") {
    for (const Decision& d : choose_low_plan(spec.precision, Job::write, model.graph, log).nodes)
      e.compute.push_back(dtype_of(d.compute));
  }
  if (e.precision == "fp16") e.wide = epsilon_in_fp32(model.graph, DType::f16);
  for (const std::string& note : engine_notes(model.graph, e)) log.note(note);
  if (*spec.output.export_raw_rows) e.raw_rows = raw_rows_of(model, log);
  for (const std::string& note : export_model(*model.doc, model.graph, {}, e, out).notes) log.note(note);
}

}  // namespace amp
