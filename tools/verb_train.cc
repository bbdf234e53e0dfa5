// train, the default verb: model + data -> fine-tuned model.onnx, metrics, checkpoints, run.json.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "backend/interpreter.h"
#include "base/fs.h"
#include "base/text.h"
#include "importer/head.h"
#include "tools/calibrate_plan.h"
#include "tools/choose_device.h"
#include "tools/common.h"
#include "tools/exported_metrics.h"
#include "tools/model_metadata.h"
#include "tools/objective.h"
#include "tools/output_folder.h"
#include "tools/require_trained.h"
#include "tools/run_losses.h"
#include "tools/run_report.h"
#include "tools/show_plan.h"
#include "tools/surgery.h"
#include "tools/train_data.h"
#include "tools/train_memory.h"
#include "tools/training_config.h"
#include "tools/verbs.h"
#include "trainer/flat_views.h"
#include "trainer/update_profile.h"

namespace amp {

namespace {

// A text longer than the model's position table is found before the first step.
void require_length(const SourceGraph& g, const std::vector<int>& outputs, int64_t longest) {
  const ParamTable table(g);
  const auto fits = [&](int64_t s) {
    try {
      probe_shapes(g, table, probe_options(g, outputs, s), cpu_evaluator());
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  if (!fits(3) || fits(longest)) return;  // another error is better told by the training graph itself
  int64_t ok = 3, bad = longest;
  while (bad - ok > 1) (fits((ok + bad) / 2) ? ok : bad) = (ok + bad) / 2;
  fail(Exit::data, "E_SEQ_LEN", cat("the longest sequence has ", longest, " tokens, the model takes at most ", ok),
       cat("cut longer texts with --max_seq_len ", ok));
}

int64_t longest_of(const Dataset& data, int64_t multiple, int64_t max) {
  int64_t n = 0;
  for (const int32_t l : data.lengths()) n = std::max<int64_t>(n, l);
  const int64_t padded = (n + multiple - 1) / multiple * multiple;
  return max > 0 ? std::min(padded, std::max(n, max)) : padded;
}

std::vector<TrainedTensor> trained_tensors(const Session& session, const float* span) {
  std::vector<TrainedTensor> out;
  for (size_t i = 0; i < session.table().size(); ++i) {
    const Chunk& c = session.layout().chunks()[i];
    out.push_back({session.table().source_value[i], HostTensor(DType::f32, c.dims, nullptr, span + c.offset)});
  }
  return out;
}

}  // namespace

// The whole verb; with `only_export` nothing is trained: the newest checkpoint's weights go to that file.
static int train(const cli::Options& opts, const std::string& only_export) {
  set_threads(opts);
  const std::string dir = opts.str("output_dir");
  asked_losses(opts);
  Imported model = open_model(opts);
  SourceGraph& g = model.graph;

  std::optional<OutputFolder> folder;
  std::optional<Checkpoint> exported_checkpoint;
  const bool planning = opts.verb == cli::Verb::plan;  // everything up to the plan, nothing of a run
  const bool dry = only_export.empty() && opts.verb == cli::Verb::train && opts.flag("dry_run");  // writes nothing
  if (planning || dry) {
  } else if (only_export.empty()) {
    folder.emplace(OutputRequest{dir, opts.str("resume"), opts.flag("overwrite"), input_files(opts)});
  } else {
    exported_checkpoint = newest_checkpoint(dir + "/checkpoints");
  }
  const std::optional<Checkpoint>& checkpoint = folder ? folder->checkpoint() : exported_checkpoint;
  const std::string work = folder ? folder->work() : dir;

  // Labels decide the head, the head decides which inputs the data must feed.
  TrainData data;
  data.text = is_text_file(opts.str("train"));
  DataNeeds needs;
  Task task = asked_task(opts);
  if (data.text) {
    if (task == Task::none) task = task_from_name(opts.str("head"));
    needs.sides = wants_sides(opts);
    if (task == Task::none) task = needs.sides ? sides_task(opts) : text_task(opts);
    needs.classes = read_classes(opts, task);
  }
  // else outputs are trained as they are
  const bool wants_head = data.text || opts.has("cut_at") || opts.has("head_from");
  const Shaped shaped = shape_model(opts, model, static_cast<int64_t>(needs.classes.size()),
                                    needs.sides  ? "embedding"
                                    : wants_head ? name_of(task)
                                                 : "none");
  say(opts, shaped.lines);
  if (task == Task::none && !shaped.outputs.empty()) task = task_from_name(shaped.head);
  const std::string head = shaped.outputs.empty() || opts.has("output") ? std::string() : shaped.outputs.front();
  Objective objective = choose_objective(opts, g, head, task);
  objective.classes = needs.classes;
  objective.max_answer_length = opts.integer("max_answer_length");
  const std::vector<int> loss_outputs = values_of(g, objective.losses);
  require_known_operators(g, loss_outputs);
  const Trainable trainable = make_trainable(opts, g, loss_outputs);
  const std::unique_ptr<OpenTeacher> teacher = open_teacher(opts, objective.losses);
  needs.task = data.text ? task : objective.task;
  needs.inputs = needed_inputs(g, loss_outputs);
  needs.labels = objective.losses.labels();
  if (teacher) {
    objective.teacher = teacher->teacher.get();
    needs.more_inputs = teacher->inputs(input_specs(g, needs.inputs));
  }
  if (data.text) check_vocabulary(opts, g, needs.inputs);
  data.train = open_dataset(opts, opts.str("train"), g, needs, opts.integer("batch_size"));
  if (opts.has("val")) data.val = open_dataset(opts, opts.str("val"), g, needs, opts.integer("eval_batch_size"));
  for (const Dataset* d : {data.train.get(), data.val.get()}) {
    if (!d) continue;
    const bool training = d == data.train.get();
    if (!training) check_ranges(data.train->input_ranges(), d->input_ranges(), opts.str("val"));
    check_labels(g, objective.losses, *d);
    check_pairs(objective.losses, *d, opts.integer(training ? "batch_size" : "eval_batch_size"),
                training && opts.flag("shuffle"));
  }
  if (data.text) {
    int64_t longest = longest_of(*data.train, opts.integer("pad_to_multiple"), opts.integer("max_seq_len"));
    if (data.val)
      longest = std::max(longest, longest_of(*data.val, opts.integer("pad_to_multiple"), opts.integer("max_seq_len")));
    require_length(g, loss_outputs, longest);
  }

  const std::string earlier = work + "/precision_plan.json";  // of the run that goes on, or is exported
  const PrecisionPlan plan = !wants_calibration(opts) ? choose_plan(opts, g)
                             : checkpoint && path_exists(earlier)
                                 ? decide(g, load_op_list(earlier), opts.flag("use_bf16") ? DType::bf16 : DType::f16)
                                 : calibrate_plan(opts, g, objective, *data.train, data.text).plan;
  RunFacts facts;
  TrainerConfig config = trainer_config(opts, plan, objective, data);
  if (!only_export.empty()) {  // the settings are those of its run.json, and the data may be others by now
    std::string model_now = config.fixed.at("model");
    config.fixed = checkpoint->hashes;
    config.fixed["model"] = std::move(model_now);
  }
  config.output_dir = work;
  config.on_step = [&facts](const StepResult&) {
    if (!facts.first_step_seconds) facts.first_step_seconds = process_seconds();
  };
  if (only_export.empty() && !planning) check_memory(opts, g, plan, config, data, dry);
  if (dry) return 0;
  const SessionOptions options = session_options(opts, plan);
  const auto with_advice = [&](const auto& f) {
    try {
      return f();
    } catch (const Error& e) {
      fail_for_memory(e, g, options, config, data);
    }
  };
  auto session = with_advice([&] { return std::make_unique<Session>(g, options); });
  {
    SamplerOptions first = config.sampler;
    first.order = data.text ? Order::by_length : Order::file;  // the longest batch first: it sets the arena
    Sampler sampler(data.train->size(), data.train->lengths(), first);
    const LoadedWindow window = load_window(*data.train, sampler.next());
    const Tensors batch = to_tensors(window.batches.at(0), objective.teacher);
    with_advice([&] { session->prepare(objective.losses, batch); });
    if (planning) {
      const PlanCost cost = measure_plan(*session->train_graph(objective.losses, batch), g.nodes.size());
      show_plan(opts, g, plan, &cost);
      return 0;
    }
    if (folder) {
      if (config.max_steps > 0) require_trained(*session);
      folder->begin();
      write_plan(work, g, plan, measure_plan(*session->train_graph(objective.losses, batch), g.nodes.size()));
    }
    if (opts.flag("profile")) {
      with_advice([&] {
        print_profile(profile_operators(*session, objective.losses, batch, 5));
        facts.update = profile_update(*session, config.optimizer, objective.losses, 50);
      });
      if (facts.update) print_profile(*facts.update);
    }
  }
  if (only_export.empty()) {
    describe_start(*session, plan, config, data.train->size());
    // `export RUN` needs it, whatever happens
    write_run(opts, work, model, plan, config, {}, facts, needs.classes, false);
  }

  std::optional<StopSignals> stop(std::in_place);
  auto trainer =
      with_advice([&] { return std::make_unique<Trainer>(*session, *data.train, data.val.get(), *stop, config); });
  if (checkpoint) trainer->resume(*checkpoint);
  exported_checkpoint.reset();
  if (folder) folder->forget_checkpoint();
  TrainResult result = only_export.empty() ? with_advice([&] { return trainer->run(); }) : trainer->reached();
  facts.device_memory = memory_of(*options.device);  // before the model is exported and checked
  const bool saved = folder && result.saved;
  if (result.stopped || stop->requested()) {
    if (saved) {
      write_run(opts, work, model, plan, config, result, facts, needs.classes, false);
      std::cerr << "stopped by " << stop->name() << " after step " << result.steps << '\n';
    }
    say_stopped(stop->signal(), saved);
    return stopped_exit(stop->signal(), saved);
  }
  stop.reset();  // from here on nothing needs to be finished first
  if (saved) ImmediateStop::durable();

  const std::string which = opts.str("export_weights");
  if (!only_export.empty() && ((which == "best" && result.best_step < 0) || (which == "ema" && !trainer->ema()))) {
    fail(Exit::usage, "E_EXPORT_WEIGHTS",
         cat("the run has no ",
             which == "best" ? "best weights: it was not evaluated" : "moving average of its weights"),
         which == "best" ? "train with --val, or export --export_weights last"
                         : "train with --ema_decay, or export --export_weights last");
  }
  HostTensor params = session->host_params();
  if (which == "best" && result.best_step >= 0 && result.best_step != result.steps) {
    copy_views(session->moving(), "param",
               load_checkpoint(checkpoint_path(work + "/checkpoints", result.best_step)).tensors,
               params.as_mutable<float>());
    session->set_params(params);
    result.last.reset();
  }
  if (const HostTensor ema = trainer->ema(); which == "ema" && ema) {
    // What does not train has no average of its own, running statistics neither (torch.optim.swa_utils keeps buffers
    // so).
    for (size_t i = 0; i < session->table().size(); ++i) {
      const Chunk& c = session->layout().chunks()[i];
      if (!c.frozen) std::copy_n(ema.as<float>() + c.offset, c.numel, params.as_mutable<float>() + c.offset);
    }
    session->set_params(params);
    result.last.reset();
  }
  trainer.reset();
  ExportOptions e;
  e.precision = opts.str("export_precision");
  e.compute = session_options(opts, plan).compute;
  if (result.steps > 0 || data.text)  // untrained, the file stays as it is
    e.metadata = to_metadata(record_of(opts, objective, task, data.text, data.train->input_ranges()));
  e.inference_form = result.steps > 0;
  const std::string finish = folder ? folder->finish_path() : "";
  const std::string path = folder ? finish + "/model.onnx" : only_export;
  std::vector<TrainedTensor> exported = trained_tensors(*session, params.as<float>());
  if (!trainable.keep_lora) exported = merge_lora(g, trainable.lora, std::move(exported));
  for (const std::string& note : export_model(*model.doc, g, exported, e, path).notes)
    std::cerr << "note: " << note << '\n';
  if (opts.flag("verify_export"))
    facts.export_difference =
        verify_export(*session, path, objective.losses, data.val ? *data.val : *data.train, e.precision);
  if (!only_export.empty()) {
    std::cerr << "exported the " << which << " weights of step " << (which == "best" ? result.best_step : result.steps);
    if (facts.export_difference)
      std::cerr << "; outputs differ from the trained graph's by at most " << *facts.export_difference;
    std::cerr << '\n';
    std::cout << path << '\n';
    return 0;
  }
  const bool same_arithmetic = !plan.any_low() && e.precision == "fp32" && !opts.flag("tf32") && result.last;
  if (data.val && !same_arithmetic) {
    facts.as_trained = result.last;
    session.reset();  // the file's memory is its own
    result.last = evaluate_export(path, objective, *data.val, config.eval_batch_size, options);
  }
  write_run(opts, finish, model, plan, config, result, facts, needs.classes, true);
  folder->publish();
  print_summary(dir + "/model.onnx", result, opts.str("val"));

  check_gates(opts, result.last ? &*result.last : nullptr);
  return 0;
}

int run_train(const cli::Options& opts) { return train(opts, ""); }
int calibrate_run(cli::Options opts) {
  opts.offer("train", {opts.str("calibrate")}, cli::Source::command_line, "--calibrate");
  return train(opts, "");
}
int export_run(const cli::Options& trained, const std::string& out) { return train(trained, out); }

}  // namespace amp
