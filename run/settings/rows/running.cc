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
              "Folder that the run writes: model.onnx, metrics.jsonl, run.json and checkpoints.")
          .shown_as("DIR")
          .read_by(kTrain)
          .in_short_help()
          .also({"o", "checkpoints"})
          .may_change(),
      setting("save_strategy", &OutputSpec::save_strategy,
              "When to write checkpoints. auto: after epochs and new best evaluations, as long as saving takes at most "
              "3.5 % of the run's time; epoch: after each epoch; steps: only every `save_steps`; no: only when the run "
              "is stopped. All strategies except no also write the last and the best checkpoint.")
          .one_of({"auto", "epoch", "steps", "no"})
          .same({{"none", "no"}})
          .read_by(kTrain)
          .may_change(),
      setting("save_steps", &OutputSpec::save_steps,
              "Write a checkpoint every N attempted steps, in addition to those of `save_strategy`; 0: off.")
          .at_least(0)
          .read_by(kTrain)
          .may_change(),
      setting("save_total_limit", &OutputSpec::save_total_limit,
              "Number of newest checkpoints to keep, in addition to the best one; 0: all.")
          .at_least(0)
          .read_by(kTrain)
          .also({"checkpoint_hist"})
          .may_change(),
      setting("resume", &OutputSpec::resume,
              "Checkpoint to continue from. auto: the newest usable one in `output_dir`, or a new run if there is "
              "none; none: a new run.")
          .shown_as("none|auto|PATH")
          .same({{"true", "auto"}, {"false", "none"}})
          .read_by(kTrain)
          .in_short_help()
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
              "Replace the run in `output_dir`. The old run stays until the new one is complete; other files are not "
              "touched.")
          .read_by(kTrain)
          .in_short_help()
          .unrecorded()
          .also({"overwrite_output_dir"})
          .may_change(),
      setting("logging_steps", &OutputSpec::logging_steps,
              "Print a line every N steps if there is no progress bar; metrics.jsonl has all steps.")
          .at_least(1)
          .read_by(kTrain)
          .also({"log_interval", "skip_steps"})
          .may_change(),
      setting("tensorboard", &OutputSpec::tensorboard, "Also write TensorBoard event files into the run's folder.")
          .read_by(kTrain)
          .may_change(),
      setting("serve", &OutputSpec::serve,
              "Port at 127.0.0.1 where report.html is served while the run lasts. off: none; 0, or the flag without a "
              "port: a free port, which is printed.")
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
              "Types in the exported file: fp32, fp16, or mixed (16 bits where the plan computes in 16 bits). Without "
              "this flag the types of the model's file are kept.")
          .one_of({"fp32", "fp16", "mixed"})
          .same({{"float32", "fp32"}, {"float16", "fp16"}})
          .read_by(kExport)
          .in_short_help()
          .may_change(),
      setting("export_weights", &OutputSpec::export_weights,
              "Weights to export: of the last step, of the best evaluation, or a moving average (ema: the first one; "
              "ema:0.999: the one with this decay).")
          .shown_as("last|best|ema|ema:X")
          .checked(normal_weights, "last, best, ema, or ema:DECAY")
          .read_by(kExport)
          .also({OtherName("load_best_model_at_end", "best", "last")})
          .may_change(),
      setting("export_raw_rows", &OutputSpec::export_raw_rows,
              "For a model of tables: add nodes that compute the features from the cells of a table's rows. Training "
              "writes raw_rows.onnx in addition to model.onnx.")
          .read_by(kExport)
          .may_change(),
      setting(
          "lora_export", &OutputSpec::lora_export,
          "Forms of low-rank adapters to write, separated by commas. In model.onnx one of merge: merged into the "
          "weights, or as nodes of their own where a weight is quantized; keep: all as nodes; slots: the base with "
          "empty "
          "inputs for adapters, with slots.json and model.onnx_adapter. Besides or instead adapter: model.onnx_adapter "
          "for such a base; peft: the files of a PEFT folder.")
          .shown_as("merge|keep|slots|adapter|peft")
          .checked(normal_lora_export, "one of merge, keep and slots, and adapter or peft")
          .read_by(kTrain)
          .may_change(),
      setting("verify_export", &OutputSpec::verify_export,
              "Compare the outputs of the exported file with those of the trained graph.")
          .read_by(kTrain)
          .may_change(),
  };
}

std::vector<Setting> run_settings() {
  return {
      setting("device", &DeviceSpec::device,
              "Device that computes the model; auto: CUDA if there is a usable GPU, else the CPU.")
          .one_of({"auto", "cpu", "cuda"})
          .same({{"gpu", "cuda"}})
          .read_by(kRun)
          .also({OtherName("no_cuda", "cpu", "auto"), OtherName("use_cpu", "cpu", "auto"),
                 OtherName("use_cuda", "cuda", "cpu")})
          .may_change(),
      setting("gpus", &DistributionSpec::gpus,
              "Numbers of the GPUs to use, such as 0,2, with one rank on each (docs/scaling.md). Default: GPU 0 or, "
              "under a launcher, the GPU of the rank's local number.")
          .shown_as("N,N")
          .checked(normal_gpus, "numbers of GPUs, each once, e.g. 0,2")
          .read_by(kRun)
          .also({"gpu_ids"})
          .may_change(),
      setting(
          "remove_padding", &DeviceSpec::remove_padding,
          "Compute only the real tokens of a batch (varlen), where attention masks the padding and no loss reads it.")
          .read_by(jobs(Job::train, Job::evaluate, Job::gradients))
          .also({"padding_free", "unpad"}),
      setting("skip_unlabeled", &DeviceSpec::skip_unlabeled,
              "After the last attention, compute only the tokens whose label a loss reads: the head of a language "
              "model skips prompts.")
          .read_by(jobs(Job::train, Job::evaluate, Job::gradients)),
      setting("tf32", &DeviceSpec::tf32,
              "Allow fp32 matrix products on a GPU to round their operands to TF32 (10 bits).")
          .read_by(kRun)
          .also({"allow_tf32"}),
      setting("fusion", &DeviceSpec::fusion,
              "Compute residual sums and the norms after them in one kernel and, on a GPU, chains of elementwise "
              "operators. Results are the same.")
          .read_by(kRun)
          .may_change(),
      setting("threads", &DeviceSpec::threads,
              "Largest number of CPU threads; 0: one per core. Small models use fewer threads if that is faster; "
              "results are the same.")
          .at_least(0)
          .read_by(kRun)
          .also({"num_threads"})
          .may_change(),
      setting("ranks", &DistributionSpec::ranks,
              "Number of replicas that train in this process (data parallel), each with `batch_size` rows of every "
              "micro-batch (docs/scaling.md).")
          .at_least(1)
          .at_most(1024)
          .read_by(kTrain)
          .may_change(),
      setting("overlap_grad_reduce", &DistributionSpec::overlap_grad_reduce,
              "With several ranks on the CPU: sum gradients while backward runs. Results are the same.")
          .read_by(kTrain)
          .may_change(),
      setting("grad_reduce_dtype", &DistributionSpec::grad_reduce_dtype,
              "With several ranks: type in which gradients are exchanged. 16-bit types halve the traffic and round the "
              "gradients (docs/scaling.md).")
          .one_of({"fp32", "fp16", "bf16"})
          .read_by(kTrain)
          .also({"communication_data_type"}),
      setting("grad_reduce_trace", &DistributionSpec::grad_reduce_trace,
              "With several ranks on the CPU: file for a trace (chrome://tracing, Perfetto) of the gradient sums and "
              "backward passes of rank 0 in the first 100 steps. Default: none.")
          .shown_as("FILE")
          .read_by(kTrain)
          .may_change(),
      setting("sync_every", &DistributionSpec::sync_every,
              "Local SGD: number of steps that each rank makes with its own gradients before weights are averaged "
              "(docs/scaling.md). 1: gradients are summed in every step.")
          .at_least(1)
          .read_by(kTrain),
      setting("heartbeat", &DistributionSpec::heartbeat,
              "Under mpirun, srun or torchrun: seconds without a heartbeat of a process after which the other "
              "processes end with exit code 10.")
          .at_least(0.5)
          .read_by(kTrain)
          .may_change(),
      setting("rank_token_file", &DistributionSpec::rank_token_file,
              "Under mpirun, srun or torchrun: file with a secret that all ranks have. Only processes with the same "
              "secret can join the run. Default: the environment variable ONNX_AMP_RANK_TOKEN (docs/scaling.md).")
          .shown_as("FILE")
          .read_by(kTrain)
          .may_change(),
      setting("gradient_checkpointing", &DeviceSpec::gradient_checkpointing,
              "Keep as few activations as possible and recompute the forward pass in backward. This takes up to a "
              "third more time and gives the same bits; `memory_budget` recomputes only as much as needed.")
          .read_by(kTrain)
          .also({"grad_checkpointing"})
          .may_change(),
      setting("memory_budget", &DeviceSpec::memory_budget,
              "Largest memory of weights, gradients, optimizer state and activations, such as 2GiB; the forward pass "
              "is recomputed in backward as far as needed, with the same bits. `dry_run` lists the choices. Default: "
              "no limit.")
          .checked(normal_bytes, "bytes, or a number with KiB, MiB, GiB, kB, MB or GB")
          .shown_as("SIZE")
          .read_by(kTrain)
          .may_change(),
      setting("max_graph_nodes", &DeviceSpec::max_graph_nodes,
              "Largest number of nodes of a model, after functions are inlined and loops unrolled; larger models are "
              "refused.")
          .at_least(1)
          .read_by(kRun | kExport)
          .may_change(),
      setting("max_activation_bytes", &DeviceSpec::max_activation_bytes,
              "Largest memory in bytes of a graph's tensors that exist at the same time; larger graphs are refused. 0: "
              "10,000 times the weights and inputs, at least 768 MiB.")
          .at_least(0)
          .read_by(kRun | kExport)
          .may_change(),
      setting(
          "max_constant_bytes", &DeviceSpec::max_constant_bytes,
          "Largest size in bytes of a tensor that is computed from a model's constants; larger tensors are refused.")
          .at_least(0)
          .read_by(kRun | kExport)
          .may_change(),
      setting("seed", &DeviceSpec::seed, "Seed of all random numbers.")
          .at_least(0)
          .read_by(kGraph | jobs(Job::build, Job::convert, Job::generate))
          .in_short_help()
          .also({"random_seed"}),
      setting("profile", &DeviceSpec::profile,
              "Time the operators of one training step and print the table before training.")
          .read_by(kTrain)
          .may_change(),
  };
}

}  // namespace amp
