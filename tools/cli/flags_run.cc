// Flags: output and checkpoints; export; running.
#include "tools/cli/flag_words.h"

namespace amp::cli {

std::vector<Flag> checkpoint_flags() {
  return {
      text("output_dir", "DIR", "run", "Folder of the run: model.onnx, metrics.jsonl, run.json, checkpoints.")
          .on(kTrain)
          .also({"o", "checkpoints"}),
      text("out", "FILE", "", "File to write.")
          .on(in(Verb::predict, Verb::grad, Verb::export_model, Verb::check, Verb::plan))
          .needed(in(Verb::predict, Verb::grad, Verb::export_model))
          .also({"output_path"}),
      text("dump_graph", "FILE", "", "Write the training graph too, as text: core operators, storage types, origins.")
          .on(in(Verb::grad)),
      whole("save_steps", "0", "Checkpoint every N attempted steps as well as at the end of each epoch; 0: only there.")
          .at_least(0)
          .on(kTrain),
      whole("save_total_limit", "2", "Checkpoints kept, the best one on top; 0: all.")
          .at_least(0)
          .on(kTrain)
          .also({"checkpoint_hist"}),
      text("resume", "none|auto|PATH", "none", "Continue from a checkpoint; auto: the newest usable one, else afresh.")
          .same({{"true", "auto"}, {"false", "none"}})
          .on(kTrain)
          .also({"resume_from_checkpoint"}),
      toggle("overwrite", "false",
             "Replace the run in --output_dir; it stays until the new one is complete, and nothing else is touched.")
          .on(kTrain)
          .unrecorded()
          .also({"overwrite_output_dir"}),
      whole("logging_steps", "50",
            "A line on the console every N steps where there is no progress bar (metrics.jsonl has all).")
          .at_least(1)
          .on(kTrain)
          .also({"log_interval", "skip_steps"}),
  };
}

std::vector<Flag> export_flags() {
  return {
      choice("export_precision", {"fp32", "fp16", "mixed"}, "fp32",
             "Types in the file; mixed: 16 bits where the plan computes so.")
          .same({{"float32", "fp32"}, {"float16", "fp16"}})
          .on(kExport),
      choice("export_weights", {"last", "best", "ema"}, "last", "Which weights of the run are exported.")
          .on(kExport)
          .also({Alias("load_best_model_at_end", "best", "last")}),
      choice("lora_export", {"merge", "keep"}, "merge",
             "Adapters in model.onnx: added into the weights, or nodes of their own.")
          .on(kTrain),
      toggle("verify_export", "true", "Compare the exported file's outputs with the trained graph's.").on(kTrain),
  };
}

std::vector<Flag> run_flags() {
  return {
      choice("device", {"auto", "cpu", "cuda"}, "auto", "Where to compute; auto: CUDA when there is a usable GPU.")
          .same({{"gpu", "cuda"}})
          .on(kRun)
          .also({Alias("no_cuda", "cpu", "auto"), Alias("use_cpu", "cpu", "auto"), Alias("use_cuda", "cuda", "cpu")}),
      toggle("remove_padding", "true",
             "Skip padding: run only real tokens (varlen), where attention hides the others and no loss sees them.")
          .on(in(Verb::train, Verb::eval, Verb::grad))
          .also({"padding_free", "unpad"}),
      toggle("tf32", "false", "On a GPU: fp32 products may round their operands to TF32 (10 bits).")
          .on(kRun)
          .also({"allow_tf32"}),
      toggle("fusion", "true",
             "Residual sums and their norms, on a GPU chains of elementwise operators too, run as one kernel; the "
             "results are the same.")
          .on(kRun),
      whole("threads", "0", "CPU threads; 0: one for each core.").at_least(0).on(kRun).also({"num_threads"}),
      whole("max_graph_nodes", "200000", "Refuse models of more nodes, functions inlined and loops unrolled.")
          .at_least(1)
          .on(kRun | kExport),
      whole("max_activation_bytes", "0",
            "Refuse graphs whose tensors need more memory at one time; 0: 10,000 times the weights and inputs, 768 MiB "
            "at least.")
          .at_least(0)
          .on(kRun | kExport),
      whole("max_constant_bytes", "67108864", "Refuse to compute a tensor of more bytes from a model's constants.")
          .at_least(0)
          .on(kRun | kExport),
      whole("seed", "42", "Seed of everything random.").at_least(0).on(kGraph).also({"random_seed"}),
      toggle("dry_run", "false",
             "Check model, plan and data, print the memory bill; trains, allocates and writes nothing.")
          .on(kTrain),
      toggle("profile", "false", "Time the operators of one training step and print the table first.").on(kTrain),
      toggle("json", "false", "Write JSON: the table, or of each line ids, tokens, offsets and type ids.")
          .on(in(Verb::check, Verb::plan, Verb::tokenize)),
      toggle("pairs", "false", "Lines are two texts with a tab between them.").on(only(Verb::tokenize)),
      toggle("decode", "false", "Lines are token ids; write their text.").on(only(Verb::tokenize)),
      text("config", "FILE", "", "JSON file of flags and values; a run.json too.").on(kAll).unrecorded().also({"c"}),
      toggle("quiet", "false", "Only warnings and the result.").on(kAll),
      toggle("verbose", "false", "More about what is decided and why.").on(kAll),
  };
}

}  // namespace amp::cli
