// Settings of output and checkpoints, of export, and of running (device, ranks, seed). may_change() marks what a
// resumed run may set differently.
#include "run/settings/rows/rows.h"
#include "run/spec/device.h"
#include "run/spec/distribution.h"
#include "run/spec/output.h"

namespace amp {

std::vector<Setting> checkpoint_settings() {
  return {
      setting("output_dir", &OutputSpec::output_dir,
              "Folder of the run: model.onnx, metrics.jsonl, run.json, checkpoints.")
          .shown_as("DIR")
          .read_by(kTrain)
          .also({"o", "checkpoints"})
          .may_change(),
      setting("save_strategy", &OutputSpec::save_strategy,
              "When to write checkpoints. auto: after epochs and new best evaluations, within 3.5 % of the run's time; "
              "epoch: after each epoch; steps: only every `save_steps`; no: only when the run is stopped. All but no "
              "write the last and the best one.")
          .one_of({"auto", "epoch", "steps", "no"})
          .same({{"none", "no"}})
          .read_by(kTrain)
          .may_change(),
      setting("save_steps", &OutputSpec::save_steps,
              "Write a checkpoint every N attempted steps, in addition to `save_strategy`; 0: off.")
          .at_least(0)
          .read_by(kTrain)
          .may_change(),
      setting("save_total_limit", &OutputSpec::save_total_limit,
              "Number of checkpoints to keep, in addition to the best one; 0: all.")
          .at_least(0)
          .read_by(kTrain)
          .also({"checkpoint_hist"})
          .may_change(),
      setting("resume", &OutputSpec::resume,
              "Continue from a checkpoint; auto: the newest usable one, or start a new run.")
          .shown_as("none|auto|PATH")
          .same({{"true", "auto"}, {"false", "none"}})
          .read_by(kTrain)
          .also({"resume_from_checkpoint"})
          .may_change(),
      setting("resume_schedule", &OutputSpec::resume_schedule,
              "Learning-rate schedule of a resumed run with another number of steps: stretch (as if that number had "
              "been given at the start), restart (a new schedule over the remaining steps), hold (as before, then the "
              "last rate). auto: as before if the number does not matter, else refused.")
          .one_of({"auto", "stretch", "restart", "hold"})
          .read_by(kTrain)
          .may_change(),
      setting("overwrite", &OutputSpec::overwrite,
              "Replace the run in `output_dir`. It stays until the new one is complete; other files are not touched.")
          .read_by(kTrain)
          .unrecorded()
          .also({"overwrite_output_dir"})
          .may_change(),
      setting("logging_steps", &OutputSpec::logging_steps,
              "Print a line every N steps if there is no progress bar (metrics.jsonl has all steps).")
          .at_least(1)
          .read_by(kTrain)
          .also({"log_interval", "skip_steps"})
          .may_change(),
      setting("tensorboard", &OutputSpec::tensorboard, "Also write TensorBoard event files into the run's folder.")
          .read_by(kTrain)
          .may_change(),
      setting("serve", &OutputSpec::serve,
              "Serve report.html at 127.0.0.1 while the run lasts; without a port, or with 0, on a free one, which is "
              "printed.")
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
      setting("export_precision", &OutputSpec::export_precision,
              "Types in the exported file; mixed: 16 bits where the plan computes in 16 bits. Default: those of the "
              "model's file; fp32 also converts a 16-bit file.")
          .one_of({"fp32", "fp16", "mixed"})
          .same({{"float32", "fp32"}, {"float16", "fp16"}})
          .read_by(kExport)
          .may_change(),
      setting("export_weights", &OutputSpec::export_weights,
              "Weights to export; ema: the (first) average, ema:0.999: the average with this decay.")
          .shown_as("last|best|ema|ema:X")
          .checked(normal_weights, "last, best, ema, or ema:DECAY")
          .read_by(kExport)
          .also({OtherName("load_best_model_at_end", "best", "last")})
          .may_change(),
      setting("export_raw_rows", &OutputSpec::export_raw_rows,
              "For a model of tables: add nodes that take the cells of a table (export).")
          .read_by(jobs(Job::write)),
      setting("lora_export", &OutputSpec::lora_export,
              "Adapters in model.onnx: merged into the weights, or kept as nodes.")
          .one_of({"merge", "keep"})
          .read_by(kTrain)
          .may_change(),
      setting("verify_export", &OutputSpec::verify_export,
              "Compare the exported file's outputs with the trained graph's.")
          .read_by(kTrain)
          .may_change(),
  };
}

std::vector<Setting> run_settings() {
  return {
      setting("device", &DeviceSpec::device, "Device; auto: CUDA if there is a usable GPU.")
          .one_of({"auto", "cpu", "cuda"})
          .same({{"gpu", "cuda"}})
          .read_by(kRun)
          .also({OtherName("no_cuda", "cpu", "auto"), OtherName("use_cpu", "cpu", "auto"),
                 OtherName("use_cuda", "cuda", "cpu")})
          .may_change(),
      setting("gpus", &DistributionSpec::gpus,
              "GPU numbers, e.g. 0,2: one rank on each. Ranks of a launcher use the one of their local number "
              "(docs/scaling.md).")
          .shown_as("N,N")
          .checked(normal_gpus, "numbers of GPUs, each once, e.g. 0,2")
          .read_by(kRun)
          .also({"gpu_ids"})
          .may_change(),
      setting("remove_padding", &DeviceSpec::remove_padding,
              "Compute real tokens only (varlen) where attention masks padding and no loss reads it.")
          .read_by(jobs(Job::train, Job::evaluate, Job::gradients))
          .also({"padding_free", "unpad"}),
      setting("tf32", &DeviceSpec::tf32, "On a GPU: fp32 products may round their operands to TF32 (10 bits).")
          .read_by(kRun)
          .also({"allow_tf32"}),
      setting("fusion", &DeviceSpec::fusion,
              "Compute residual sums with their norms, and on a GPU chains of elementwise operators, in one kernel; "
              "results are the same.")
          .read_by(kRun)
          .may_change(),
      setting("threads", &DeviceSpec::threads,
              "Largest number of CPU threads; 0: one per core. Small nets use fewer if that is faster; results are the "
              "same.")
          .at_least(0)
          .read_by(kRun)
          .also({"num_threads"})
          .may_change(),
      setting("ranks", &DistributionSpec::ranks,
              "Data parallel training: N replicas in this process, each with `batch_size` rows of every micro-batch "
              "(docs/scaling.md).")
          .at_least(1)
          .at_most(1024)
          .read_by(kTrain)
          .may_change(),
      setting("overlap_grad_reduce", &DistributionSpec::overlap_grad_reduce,
              "Several ranks on the CPU: sum gradients while backward runs; results are the same.")
          .read_by(kTrain)
          .may_change(),
      setting("grad_reduce_dtype", &DistributionSpec::grad_reduce_dtype,
              "Several ranks: type in which gradients are exchanged; 16 bits halve the traffic and round "
              "(docs/scaling.md).")
          .one_of({"fp32", "fp16", "bf16"})
          .read_by(kTrain)
          .also({"communication_data_type"}),
      setting("grad_reduce_trace", &DistributionSpec::grad_reduce_trace,
              "Several ranks on the CPU: write the gradient sums and backward passes of rank 0 during the first 100 "
              "steps to this file, as a trace for chrome://tracing and Perfetto.")
          .shown_as("FILE")
          .read_by(kTrain)
          .may_change(),
      setting("sync_every", &DistributionSpec::sync_every,
              "Local SGD: each rank makes N steps with its own gradients, then weights are averaged (docs/scaling.md). "
              "1: gradients are summed in every step.")
          .at_least(1)
          .read_by(kTrain),
      setting(
          "heartbeat", &DistributionSpec::heartbeat,
          "Under mpirun, srun or torchrun: seconds without a heartbeat of a process before the others end (exit 10).")
          .at_least(0.5)
          .read_by(kTrain)
          .may_change(),
      setting("gradient_checkpointing", &DeviceSpec::gradient_checkpointing,
              "Keep as few activations as possible and recompute the forward pass in backward: up to a third more "
              "time, the same bits. `memory_budget` recomputes only as much as a size needs.")
          .read_by(kTrain)
          .also({"grad_checkpointing"})
          .may_change(),
      setting("memory_budget", &DeviceSpec::memory_budget,
              "Limit memory (weights, gradients, optimizer state, activations) by recomputing the forward pass in "
              "backward, with the same bits; `dry_run` lists the choices.")
          .checked(normal_bytes, "bytes, or a number with KiB, MiB, GiB, kB, MB or GB")
          .shown_as("SIZE")
          .read_by(kTrain)
          .may_change(),
      setting("max_graph_nodes", &DeviceSpec::max_graph_nodes,
              "Refuse models with more nodes after functions are inlined and loops unrolled.")
          .at_least(1)
          .read_by(kRun | kExport)
          .may_change(),
      setting("max_activation_bytes", &DeviceSpec::max_activation_bytes,
              "Refuse graphs whose tensors need more memory at once; 0: 10,000 times the weights and inputs, at least "
              "768 MiB.")
          .at_least(0)
          .read_by(kRun | kExport)
          .may_change(),
      setting("max_constant_bytes", &DeviceSpec::max_constant_bytes,
              "Refuse to compute a larger tensor from a model's constants.")
          .at_least(0)
          .read_by(kRun | kExport)
          .may_change(),
      setting("seed", &DeviceSpec::seed, "Seed of all random numbers.")
          .at_least(0)
          .read_by(kGraph | jobs(Job::build, Job::generate))
          .also({"random_seed"}),
      setting("profile", &DeviceSpec::profile, "Time the operators of one training step and print the table first.")
          .read_by(kTrain)
          .may_change(),
  };
}

}  // namespace amp
