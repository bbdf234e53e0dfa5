// Settings: output and checkpoints; export; running.
#include "run/settings/rows.h"

namespace amp {

std::vector<Setting> checkpoint_settings() {
  return {
      setting("output_dir", &RunSpec::output_dir,
              "Folder of the run: model.onnx, metrics.jsonl, run.json, checkpoints.")
          .shown_as("DIR")
          .read_by(kTrain)
          .also({"o", "checkpoints"})
          .may_change(),
      setting("save_strategy", &RunSpec::save_strategy,
              "When checkpoints are written. auto: at the end of epochs and at new best evaluations, within 3.5 % of "
              "the run's time; epoch: at the end of each epoch; steps: only every --save_steps; no: only when the run "
              "is stopped. The last and the best one are written by all but no.")
          .one_of({"auto", "epoch", "steps", "no"})
          .same({{"none", "no"}})
          .read_by(kTrain)
          .may_change(),
      setting("save_steps", &RunSpec::save_steps,
              "Checkpoint every N attempted steps, besides what --save_strategy says; 0: only that.")
          .at_least(0)
          .read_by(kTrain)
          .may_change(),
      setting("save_total_limit", &RunSpec::save_total_limit, "Checkpoints kept, the best one on top; 0: all.")
          .at_least(0)
          .read_by(kTrain)
          .also({"checkpoint_hist"})
          .may_change(),
      setting("resume", &RunSpec::resume, "Continue from a checkpoint; auto: the newest usable one, else afresh.")
          .shown_as("none|auto|PATH")
          .same({{"true", "auto"}, {"false", "none"}})
          .read_by(kTrain)
          .also({"resume_from_checkpoint"})
          .may_change(),
      setting(
          "resume_schedule", &RunSpec::resume_schedule,
          "What becomes of the learning-rate schedule when a resumed run is to have another number of steps: stretch "
          "(as if asked for from the beginning), restart (a new one over the steps left), hold (as before, then its "
          "last rate); auto: as before where their number does not matter, else refused.")
          .one_of({"auto", "stretch", "restart", "hold"})
          .read_by(kTrain)
          .may_change(),
      setting("overwrite", &RunSpec::overwrite,
              "Replace the run in --output_dir; it stays until the new one is complete, and nothing else is touched.")
          .read_by(kTrain)
          .unrecorded()
          .also({"overwrite_output_dir"})
          .may_change(),
      setting("logging_steps", &RunSpec::logging_steps,
              "A line on the console every N steps where there is no progress bar (metrics.jsonl has all).")
          .at_least(1)
          .read_by(kTrain)
          .also({"log_interval", "skip_steps"})
          .may_change(),
      setting("tensorboard", &RunSpec::tensorboard,
              "Write event files for TensorBoard too; started on a folder, it shows every run below.")
          .read_by(kTrain)
          .may_change(),
      setting(
          "serve", &RunSpec::serve,
          "Show report.html live, to this machine's own browsers alone (127.0.0.1); without a port, or with 0, on a "
          "free one, which is told.")
          .shown_as("PORT")
          .checked(normal_port, "off, or a port from 0 to 65535")
          .same({{"true", "0"}, {"false", "off"}})
          .alone_is("0")
          .read_by(kTrain)
          .unrecorded()
          .may_change(),
  };
}

std::vector<Setting> export_settings() {
  return {
      setting(
          "export_precision", &RunSpec::export_precision,
          "Types in the file; mixed: 16 bits where the plan computes so. Not given: those that the model's file has; "
          "fp32 makes float32 of a file in 16 bits, too.")
          .one_of({"fp32", "fp16", "mixed"})
          .same({{"float32", "fp32"}, {"float16", "fp16"}})
          .read_by(kExport)
          .may_change(),
      setting("export_weights", &RunSpec::export_weights,
              "Which weights of the run are exported; ema: the (first) average, ema:0.999: that of this decay.")
          .shown_as("last|best|ema|ema:X")
          .checked(normal_weights, "last, best, ema, or ema:DECAY")
          .read_by(kExport)
          .also({OtherName("load_best_model_at_end", "best", "last")})
          .may_change(),
      setting("export_raw_rows", &RunSpec::export_raw_rows,
              "Of a model of tables: nodes in front that take a table's cells as they are (export).")
          .read_by(jobs(Job::write)),
      setting("lora_export", &RunSpec::lora_export,
              "Adapters in model.onnx: added into the weights, or nodes of their own.")
          .one_of({"merge", "keep"})
          .read_by(kTrain)
          .may_change(),
      setting("verify_export", &RunSpec::verify_export, "Compare the exported file's outputs with the trained graph's.")
          .read_by(kTrain)
          .may_change(),
  };
}

std::vector<Setting> run_settings() {
  return {
      setting("device", &RunSpec::device, "Where to compute; auto: CUDA when there is a usable GPU.")
          .one_of({"auto", "cpu", "cuda"})
          .same({{"gpu", "cuda"}})
          .read_by(kRun)
          .also({OtherName("no_cuda", "cpu", "auto"), OtherName("use_cpu", "cpu", "auto"),
                 OtherName("use_cuda", "cuda", "cpu")})
          .may_change(),
      setting(
          "gpus", &RunSpec::gpus,
          "GPUs by their numbers, e.g. 0,2: a rank on each; of ranks that a launcher started each takes that of its "
          "place on the machine (docs/scaling.md).")
          .shown_as("N,N")
          .checked(normal_gpus, "numbers of GPUs, each once, e.g. 0,2")
          .read_by(kRun)
          .also({"gpu_ids"})
          .may_change(),
      setting("remove_padding", &RunSpec::remove_padding,
              "Skip padding: run only real tokens (varlen), where attention hides the others and no loss sees them.")
          .read_by(jobs(Job::train, Job::evaluate, Job::gradients))
          .also({"padding_free", "unpad"}),
      setting("tf32", &RunSpec::tf32, "On a GPU: fp32 products may round their operands to TF32 (10 bits).")
          .read_by(kRun)
          .also({"allow_tf32"}),
      setting("fusion", &RunSpec::fusion,
              "Residual sums and their norms, on a GPU chains of elementwise operators too, run as one kernel; the "
              "results are the same.")
          .read_by(kRun)
          .may_change(),
      setting("threads", &RunSpec::threads,
              "CPU threads at most; 0: one for each core. Small nets run on fewer where that is faster; results are "
              "the same.")
          .at_least(0)
          .read_by(kRun)
          .also({"num_threads"})
          .may_change(),
      setting("ranks", &RunSpec::ranks,
              "Data parallel training: N replicas in this process, each on --batch_size rows of every micro-batch "
              "(docs/scaling.md).")
          .at_least(1)
          .at_most(1024)
          .read_by(kTrain)
          .may_change(),
      setting("overlap_grad_reduce", &RunSpec::overlap_grad_reduce,
              "Several ranks on the CPU: sum gradients over them while backward computes the rest; the results are the "
              "same.")
          .read_by(kTrain)
          .may_change(),
      setting(
          "grad_reduce_dtype", &RunSpec::grad_reduce_dtype,
          "Several ranks: the type in which they exchange gradients; 16 bits halve the traffic and round each rank's "
          "part of the mean, and the mean (docs/scaling.md).")
          .one_of({"fp32", "fp16", "bf16"})
          .read_by(kTrain)
          .also({"communication_data_type"}),
      setting("grad_reduce_trace", &RunSpec::grad_reduce_trace,
              "Several ranks on the CPU: write the first rank's sums of gradients beside its backward passes to this "
              "file, of the first 100 steps, as a trace for chrome://tracing and Perfetto.")
          .shown_as("FILE")
          .read_by(kTrain)
          .may_change(),
      setting("sync_every", &RunSpec::sync_every,
              "Local SGD: of several ranks each takes N steps by its own gradients, then their weights are averaged "
              "(docs/scaling.md); 1: gradients are summed in every step.")
          .at_least(1)
          .read_by(kTrain),
      setting("heartbeat", &RunSpec::heartbeat,
              "Under mpirun, srun or torchrun: seconds without a sign of life of a process until the others end (exit "
              "10).")
          .at_least(0.5)
          .read_by(kTrain)
          .may_change(),
      setting(
          "gradient_checkpointing", &RunSpec::gradient_checkpointing,
          "Keep as few activations as possible: most of the forward pass is computed again in backward, a third more "
          "time at most, with the same bits; --memory_budget does as little of it as a size asks for.")
          .read_by(kTrain)
          .also({"grad_checkpointing"})
          .may_change(),
      setting(
          "memory_budget", &RunSpec::memory_budget,
          "Train in so much memory (weights, gradients, moments, activations): as much of the forward pass is computed "
          "again in backward as that takes, with the same bits; --dry_run lists the choices.")
          .checked(normal_bytes, "bytes, or a number with KiB, MiB, GiB, kB, MB or GB")
          .shown_as("SIZE")
          .read_by(kTrain)
          .may_change(),
      setting("max_graph_nodes", &RunSpec::max_graph_nodes,
              "Refuse models of more nodes, functions inlined and loops unrolled.")
          .at_least(1)
          .read_by(kRun | kExport)
          .may_change(),
      setting("max_activation_bytes", &RunSpec::max_activation_bytes,
              "Refuse graphs whose tensors need more memory at one time; 0: 10,000 times the weights and inputs, 768 "
              "MiB at least.")
          .at_least(0)
          .read_by(kRun | kExport)
          .may_change(),
      setting("max_constant_bytes", &RunSpec::max_constant_bytes,
              "Refuse to compute a tensor of more bytes from a model's constants.")
          .at_least(0)
          .read_by(kRun | kExport)
          .may_change(),
      setting("seed", &RunSpec::seed, "Seed of everything random.")
          .at_least(0)
          .read_by(kGraph | jobs(Job::build, Job::generate))
          .also({"random_seed"}),
      setting("profile", &RunSpec::profile, "Time the operators of one training step and print the table first.")
          .read_by(kTrain)
          .may_change(),
  };
}

}  // namespace amp
