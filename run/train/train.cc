// train(): runs a prepared run to its end. Order: memory check, trial export, training, choice of weights, export,
// check of the exported file, publication of the folder. The trained model must not be lost, so failures after training
// become warnings wherever the file can still be written.
#include "run/train/train.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/fs.h"
#include "base/text.h"
#include "importer/read/import.h"
#include "run/evaluate/exported_metrics.h"
#include "run/export/export.h"
#include "run/export/export_check.h"
#include "run/export/weights.h"
#include "run/folder/run_files.h"
#include "run/model/model_metadata.h"
#include "run/model/require_trained.h"
#include "run/prepare/averages.h"
#include "run/prepare/device.h"
#include "run/prepare/export_record.h"
#include "run/prepare/memory.h"
#include "run/report/report_page.h"
#include "run/spec/spec.h"
#include "run/train/average_statistics.h"
#include "run/train/replicas.h"
#include "run/train/run_watch.h"
#include "run/train/sample_prompts.h"
#include "run/train/sum_trace.h"
#include "trainer/comm/evaluation.h"
#include "trainer/compile/flat_views.h"
#include "trainer/compile/update_profile.h"

namespace amp {

namespace {

struct Training {
  PreparedRun& run;
  SessionOptions options;
  std::unique_ptr<Session> session;
  std::unique_ptr<Trainer> trainer;
  TrainReport report;
  std::unique_ptr<RunWatch> watch = nullptr;
  std::unique_ptr<SamplePrompts> prompts = nullptr;
  // metadata of the model file; made at the start, when all inputs are read
  std::map<std::string, std::string> metadata = {};
  bool export_agreed = false;    // the ranks' common result of try_export()
  bool stopped_by_host = false;  // the result of Host::stop

  const std::string& work() const { return run.folder->work(); }
};

// Runs f(). An out-of-memory error states what would have fitted.
template <class F>
auto with_advice(Training& t, const F& f) {
  try {
    return f();
  } catch (const Error& e) {
    fail_for_memory(e, t.run.graph(), t.options, t.run.config, t.run.data);
  }
}

void write_report(const Training& t, const std::string& dir, bool finished) {
  write_run(t.run.spec, dir, t.run.ready.model, t.run.plan, t.run.config, t.report.result, t.report.facts, t.run.facts,
            finished);
}

void profile(Training& t, const Tensors& batch) {
  const Losses& losses = t.run.config.objective.losses;
  with_advice(t, [&] {
    log_profile(profile_operators(*t.session, losses, batch, 5), t.run.host.log);
    t.report.facts.update = profile_update(*t.session, t.run.config.optimizer, losses, 50);
  });
  if (t.report.facts.update) log_profile(*t.report.facts.update, t.run.host.log);
}

// Starts the observers. The answers to `sample_prompts` are written before the page that shows them.
void watch(Training& t) {
  t.watch = std::make_unique<RunWatch>(t.run, t.work());
  if (t.prompts->empty()) return;
  const auto answer = [&t](int64_t step) {
    warn_of_failure(t.run.host.log, "the answers to `sample_prompts` are missing",
                    [&] { t.prompts->answer(*t.session, step, t.work()); });
  };
  // The checkpoint is restored after this point, so also in a resumed run these are the weights before training.
  if (!path_exists(t.work() + "/" + kAnswersFile)) answer(0);
  t.run.config.on_eval = [&t, answer, then = t.run.config.on_eval](int64_t step, const Metrics& m) {
    {
      const EvaluatedWeights weights(*t.session, t.trainer->evaluated());
      answer(step);
    }
    then(step, m);
  };
}

// Creates and compiles the session, then writes the first files of the run. Everything that can fail early fails here.
void begin(Training& t) {
  PreparedRun& run = t.run;
  const std::optional<int64_t> left = keep_budget(t.options, run.spec.device, run.graph(), run.config, run.data);
  if (left && t.options.device->traits().host_memory) run.config.copy_bytes = *left;
  require_room(t.options, run.graph(), run.config, run.data);
  t.session = with_advice(t, [&] { return std::make_unique<Session>(run.graph(), t.options); });
  apply_groups(run.ready.groups, t.session->layout());
  const Tensors batch = first_batch(run);
  const Losses& losses = run.config.objective.losses;
  with_advice(t, [&] { t.session->prepare(losses, batch); });
  if (run.config.max_steps > 0) require_trained(*t.session);
  for (const Dataset* d : {run.data.train.get(), run.data.val.get()}) {
    if (d) check_labels(*t.session, losses, *d);
  }
  t.prompts = std::make_unique<SamplePrompts>(run);
  run.folder->begin();
  run.config.before_save = [&folder = *run.folder] { folder.require_present(); };
  write_plan(t.work(), run.graph(), run.plan,
             measure_plan(*t.session->train_graph(losses, batch), run.graph().nodes.size()));
  t.metadata = model_record(run);
  write_export_record(t.work(), run, trained_names(*t.session), export_batch(run));
  require_disk(run, checkpoint_bytes(*t.session, run.config), t.work());
  // true if replicas are threads that share the model (run/train/replicas.cc)
  const bool shared = run.config.sampler.ranks > 1 && run.host.ranks->size() == 1;
  if (!shared) release_parameters(run.ready.model);
  t.export_agreed = with_advice(t, [&] { return try_export(run, *t.session, t.work()); });
  if (run.spec.device.profile) profile(t, batch);
  describe_start(*t.session, run.plan, run.config, run.data.train->size(), batch_rows(losses, batch));
  log_groups(run.ready.groups, run.spec.optimization, t.session->layout(), run.host.log);
  t.report.facts.groups = groups_json(run.ready.groups, t.session->layout());
  t.report.facts.skipped = run.skipped;
  write_report(t, t.work(), false);
  watch(t);
}

// Trains; returns true if training reached its end. Stop signals are caught during this call.
bool run_steps(Training& t) {
  PreparedRun& run = t.run;
  const StopSignals stop(run.host.stop_signals);
  Replicas replicas(run, t.options, stop);
  run.folder->forget_checkpoint();
  t.report.result = with_advice(t, [&] {
    return replicas.train(*t.session, [&](std::unique_ptr<Trainer> first) -> Trainer& {
      t.trainer = std::move(first);
      return *t.trainer;
    });
  });
  if (t.report.lr_range) t.report.result.losses_not_finite = 0;  // a range test ends at its first non-finite loss
  t.report.facts.device_memory = memory_of(*t.options.device);   // before export and check allocate memory
  t.report.saved = t.report.result.saved;
  if (!t.report.result.stopped && !stop.requested()) return true;
  t.report.stopped = true;
  t.report.signal = t.report.result.stopped ? t.report.result.signal : stop.signal();
  // a range test that `max_minutes` ended: its curve so far is the result, and there is no checkpoint
  if (t.report.lr_range && t.report.signal == 0) {
    t.report.stopped = false;
    t.run.host.log.warning(cat("W_LR_RANGE: `max_minutes` ended the search after ", t.report.result.steps, " of ",
                               t.run.spec.schedule.lr_range_test, " steps"));
    return true;
  }
  t.report.signal_name = t.report.signal != 0 ? signal_name(t.report.signal)
                         : t.stopped_by_host  ? "the calling program"
                                              : "`max_minutes`";
  if (t.report.saved) {
    ImmediateStop::durable();
    write_report(t, t.work(), false);
    t.watch->stopped();
  }
  return false;
}

// Prints a note where the last weights are exported and an earlier evaluation was better.
void note_better_step(const Training& t) {
  const RunSpec& spec = t.run.spec;
  const TrainResult& r = t.report.result;
  if (spec.output.export_weights != "last" || r.best_step < 0 || !r.last) return;
  const std::string& metric = t.run.config.best_metric;
  const double last = r.last->value(metric);
  if (last == r.best_value) return;
  t.run.host.log.note(cat(
      "the last weights are exported (", metric, " ", last, "); those of step ", r.best_step, " were better (",
      r.best_value, "): ",
      spec.output.save_strategy == "no"
          ? std::string("`export_weights` best keeps them")
          : cat("`export ", printable(spec.output.output_dir), " --export_weights best --out best.onnx` writes them")));
}

// Replaces the last weights by those that `export_weights` requests (best, ema, evaluated).
void choose_weights(Training& t) {
  const std::string& which = t.run.spec.output.export_weights;
  const bool averaged = names_average(which);
  TrainResult& result = t.report.result;
  HostTensor params = t.session->host_params();
  if (which == "best" && result.best_step >= 0 && result.best_step != result.steps) {
    const Checkpoint best = best_checkpoint(t.work() + "/checkpoints", result.best_step);
    copy_views(t.session->moving(), "param", best.tensors, params.as_mutable<float>());
  } else if (averaged) {
    const HostTensor ema = t.trainer->average(average_named(t.run.spec.optimization, which));
    // Frozen tensors and running statistics have no average (torch.optim.swa_utils treats buffers the same way).
    for (const Chunk& c : t.session->layout().chunks()) {
      if (!c.frozen) std::copy_n(ema.as<float>() + c.offset, c.numel, params.as_mutable<float>() + c.offset);
    }
  } else if (const HostTensor evaluated = t.trainer->evaluated()) {
    t.session->set_params(evaluated);  // the weights that were evaluated, so their metrics stay valid
    return;
  } else {
    return;
  }
  t.session->set_params(params);
  result.last.reset();
  if (!averaged || t.run.config.optimizer.swa_start < 0) return;
  if (const int64_t n = average_statistics(*t.session, t.run.config, *t.run.data.train); n > 0)
    t.run.host.log.info(cat("running statistics of the averaged weights: the mean over ", n, " batches"));
}

// Writes the model file. If the requested types are impossible (a weight too large for fp16), writes fp32 instead. A
// file that the ONNX checker rejects is kept. So no model is lost.
void write_model(const Training& t, const std::vector<TrainedTensor>& weights, const std::string& path) {
  const PreparedRun& run = t.run;
  // A file of tensors that was not trained keeps its metadata.
  const bool keeps = t.report.result.steps == 0 && run.facts.kind() == DataKind::tensors;
  const std::map<std::string, std::string> metadata = keeps ? std::map<std::string, std::string>() : t.metadata;
  try {
    export_weights(run.spec.output, run.ready, run.plan, weights, metadata, path, run.host.log);
  } catch (const Error& e) {
    if (e.exit() == Exit::storage || e.exit() == Exit::memory) throw;
    if (one_of(e.id(), {"E_EXPORT_CHECK", "E_EXPORT_CLASSIFIER"})) {
      run.host.log.warning(cat("W_EXPORT_CHECK: the model is written nevertheless: ", e.fact()));
      export_weights(run.spec.output, run.ready, run.plan, weights, metadata, path, run.host.log, true);
      return;
    }
    const std::string types = run.spec.output.export_types();
    if (types == "fp32") throw;
    run.host.log.warning(cat("W_EXPORT_PRECISION: the trained model cannot be written in ",
                             types == "file" ? "the file's own types" : types, ", it is written in fp32: ", e.fact()));
    OutputSpec wide = run.spec.output;
    wide.export_precision = "fp32";
    export_weights(wide, run.ready, run.plan, weights, metadata, path, run.host.log);
  }
}

// Writes the model and the files of adapters that were asked for. If there is no memory for the file, the error
// explains how to export from the checkpoint.
WrittenModel write_or_explain(const Training& t, const std::vector<TrainedTensor>& weights, const std::string& path) {
  const std::string hint = cat("the checkpoint holds the trained weights: `export ", t.run.spec.output.output_dir,
                               " --out model.onnx` writes the model where there is more memory");
  try {
    const RunSpec& spec = t.run.spec;
    if (writes_model(spec.output, t.run.ready.trainable)) write_model(t, weights, path);
    return export_adapters(spec.output, t.run.ready, weights, spec.model.model, path);
  } catch (const Error& e) {
    if (e.exit() != Exit::memory) throw;
    fail(e.exit(), e.id(), cat("the model could not be written: ", e.fact()), hint);
  } catch (const std::bad_alloc&) {
    fail(Exit::memory, "E_OOM", "the model could not be written: out of memory", hint);
  }
}

// Writes the file of `export_raw_rows` from the written model, if it is asked for. Returns whether it was written.
bool write_raw_rows(const PreparedRun& run, const std::string& model, const std::string& folder) {
  if (!*run.spec.output.export_raw_rows) return false;
  return warn_of_failure(run.host.log, "raw_rows.onnx was not written", [&] {
    RunSpec spec;
    spec.model.model = model;
    spec.output.export_raw_rows = true;
    export_file(spec, folder + "/raw_rows.onnx", run.host.log);
  });
}

void finish(Training& t) {
  PreparedRun& run = t.run;
  TrainReport& report = t.report;
  t.watch->trained();
  note_better_step(t);
  choose_weights(t);
  t.trainer.reset();
  const std::string staged = run.folder->finish_path(), path = staged + "/model.onnx";
  ExportReference reference;
  const bool comparable =
      run.spec.output.verify_export && warn_of_failure(run.host.log, "the written model will not be compared", [&] {
        reference = export_reference(*t.session, run.config.objective.losses, export_batch(run));
      });
  WrittenModel written;
  {
    const std::vector<TrainedTensor> weights = trained_tensors(*t.session);
    t.session.reset();  // frees gradients and activations; the export needs their memory
    written = write_or_explain(t, weights, path);
  }
  ExportCheck checked;
  if (comparable) checked = check_export(run, reference, written, t.export_agreed);
  report.facts.export_difference = checked.difference;
  const bool same_arithmetic =
      !run.plan.any_low() && *run.spec.output.export_precision == "fp32" && !run.spec.device.tf32 && report.result.last;
  if (run.data.val && !same_arithmetic) {
    report.facts.as_trained = report.result.last;
    t.session.reset();  // frees memory for the written file's session
    warn_of_failure(run.host.log, "metrics are those of the trained weights, the written file's were not computed",
                    [&] {
                      report.result.last = evaluate_export(written.model, written.adapter, run.config.objective,
                                                           *run.data.val, run.config.eval_batch_size, t.options);
                    });
    t.watch->evaluated(report.result.steps);
  }
  for (const std::string& text : {not_finite_losses_text(report.result),
                                  report.result.last ? report.result.last->not_finite_text() : std::string()}) {
    if (!text.empty()) run.host.log.warning(text);
  }
  const bool raw = write_raw_rows(run, written.model, staged);
  write_report(t, staged, true);
  if (raw) report.raw_rows = run.spec.output.output_dir + "/raw_rows.onnx";
  const bool whole = writes_model(run.spec.output, run.ready.trainable);
  report.model =
      run.spec.output.output_dir + (whole                                     ? "/model.onnx"
                                    : run.spec.output.exports_lora("adapter") ? "/model.onnx_adapter"
                                                                              : "/adapter_model.safetensors");
  if (checked.error && run.folder->replaces())  // the old run is better than a file that differs
    throw checked.error->at(cat("in ", path, ", which did not take the old run's place"));
  run.folder->publish();
  t.watch->finished(run.spec.output.output_dir);
  report.page = run.spec.output.output_dir + "/" + kReportFile;
  if (checked.error) throw checked.error->at(cat("in ", report.model, ", which is written nevertheless"));
}

// Ends --lr_range_test: writes the curve and the suggested rates. The weights are discarded.
void finish_range(Training& t) {
  PreparedRun& run = t.run;
  t.trainer.reset();
  const std::string staged = run.folder->finish_path();
  FileWriter curve(t.work() + "/" + kLrRangeFile);
  curve.write(t.report.lr_range->json());
  curve.commit();
  write_report(t, staged, true);
  run.folder->publish();
  t.watch->finished(run.spec.output.output_dir);
  t.report.page = run.spec.output.output_dir + "/" + kReportFile;
}

// Trains a rank that is a process other than the first. The first process owns the folder and reports.
TrainReport follow(Training& t) {
  const StopSignals stop(t.run.host.stop_signals);
  TrainReport& report = t.report;
  report.result = Replicas(t.run, t.options, stop).follow();
  report.saved = report.result.saved;
  report.stopped = report.result.stopped || stop.requested();
  report.signal = report.result.stopped ? report.result.signal : stop.signal();
  if (report.saved) ImmediateStop::durable();
  return std::move(report);
}

}  // namespace

TrainReport train(PreparedRun& run) {
  check(run.mode == Mode::train && (run.folder || !run.host.ranks->is_root()),
        "train() of a run that was prepared for something else");
  Training t{run, session_options(run.spec, Job::train, run.plan, run.host.log), nullptr, nullptr, {}};
  if (run.spec.schedule.lr_range_test > 0) {
    t.report.lr_range.emplace(run.spec.schedule.lr_range_test);
    run.config.enough = [&t] { return t.report.lr_range->over(); };
  }
  SumTrace sums;
  bool warned = false;
  run.config.on_step = [&](const StepResult& s) {
    if (!run.spec.distribution.grad_reduce_trace.empty()) sums.observe(s);
    if (!std::isfinite(s.loss) && !t.report.lr_range && !std::exchange(warned, true))
      run.host.log.warning(cat("W_NOT_FINITE: the training loss of step ", s.step + 1, " is ", s.loss, " (said once)"));
    if (!t.report.facts.first_step_seconds) t.report.facts.first_step_seconds = process_seconds();
    // A non-finite loss skips its step and ends the test. Steps that the loss scale skips carry no information.
    if (t.report.lr_range && !(s.skipped() && std::isfinite(s.loss))) t.report.lr_range->observe(s.lr, s.loss);
  };
  if (run.host.stop) run.config.stop = [&t] { return t.stopped_by_host |= t.run.host.stop(); };
  if (!run.host.ranks->is_root()) return follow(t);
  begin(t);
  if (run_steps(t)) {
    if (run.host.doing) run.host.doing(t.report.result.steps, "export");
    if (t.report.saved) ImmediateStop::durable();
    t.report.lr_range ? finish_range(t) : finish(t);
  }
  if (!run.spec.distribution.grad_reduce_trace.empty()) sums.write(run.spec.distribution.grad_reduce_trace);
  run.config.on_step = nullptr;
  run.config.enough = nullptr;
  run.config.stop = nullptr;
  run.config.before_save = nullptr;
  return std::move(t.report);
}

}  // namespace amp
