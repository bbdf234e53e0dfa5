// All flags of all verbs. Names are ours; .also() holds what users of Hugging Face, PaddlePaddle (LARK), timm, Apex and
// GradScaler write for the same thing. Defaults are Hugging Face's unless the help line says why not.
#include "tools/cli/flags.h"
#include "tools/cli/values.h"

namespace amp::cli {
namespace {

constexpr VerbSet kTrain = only(Verb::train);
constexpr VerbSet kExport = in(Verb::train, Verb::export_model);
constexpr VerbSet kData = in(Verb::train, Verb::eval, Verb::predict);
constexpr VerbSet kFeed = kData | only(Verb::plan);  // read data; plan does to calibrate
constexpr VerbSet kText = kFeed | only(Verb::tokenize);
constexpr VerbSet kGraph = in(Verb::train, Verb::check, Verb::plan, Verb::grad);  // build the training graph
constexpr VerbSet kRun = kGraph | kData;                                          // build any graph
constexpr VerbSet kPlanned = kRun | only(Verb::export_model);                       // under a precision plan
constexpr VerbSet kAll = kRun | kExport | kText;

Flag make(std::string_view name, Type type, std::string_view metavar, std::string_view fallback,
          std::string_view help) {
  Flag f;
  f.name = name;
  f.type = type;
  f.metavar = metavar;
  f.fallback = fallback;
  f.help_line = help;
  return f;
}
using Text = std::string_view;
Flag toggle(Text name, Text fallback, Text help) { return make(name, Type::boolean, "", fallback, help); }
Flag whole(Text name, Text fallback, Text help) { return make(name, Type::integer, "N", fallback, help); }
Flag real(Text name, Text fallback, Text help) { return make(name, Type::number, "X", fallback, help); }
Flag text(Text name, Text metavar, Text fallback, Text help) { return make(name, Type::text, metavar, fallback, help); }
Flag list(Text name, Text metavar, Text help) { return make(name, Type::list, metavar, "", help); }
Flag choice(Text name, std::vector<Text> choices, Text fallback, Text help) {
  Flag f = make(name, Type::choice, "", fallback, help);
  f.choices = std::move(choices);
  return f;
}

std::vector<Text> metric_choices() {
  std::vector<Text> names{"auto"};
  for (const Text m : metric_names()) names.push_back(m);
  return names;
}

std::vector<Flag> model_flags() {
  return {
      text("model", "FILE", "", "The ONNX file; the same as the first word without a flag.")
          .on(kRun | kExport)
          .needed(kRun | kExport)
          .also({"model_name_or_path", "onnx_path"}),
      choice("task", {"auto", "classification", "regression", "multilabel", "token", "span", "segmentation"}, "auto",
             "What to train for: chooses loss, how labels are read, metrics. auto: by the loss and the label column.")
          .same({{"token_classification", "token"}, {"ner", "token"}, {"qa", "span"}, {"question_answering", "span"},
                 {"multi_label_classification", "multilabel"}, {"single_label_classification", "classification"}})
          .on(kGraph | kData),
      list("loss", "KIND|JSON|FILE",
           "Loss: cross_entropy, bce_logits, mse, ... with parameters (huber,delta=2), several of them (repeat, or KIND,KIND), as JSON, "
           "or a .json file; see docs/losses.md. Default: the model's own, else cross_entropy.")
          .as_json()
          .on(kGraph | only(Verb::eval)),
      text("output", "NAME", "",
           "Graph output that the loss takes, or A,B for a loss on two (default: logits, start_/end_logits for qa_span, else the "
           "first floating output).")
          .on(kGraph | only(Verb::eval)),
      text("teacher", "FILE", "", "A second ONNX file to distil from: adds the loss distill (docs/losses.md).").on(kTrain),
      real("teacher_weight", "0.5", "Weight of the teacher; the other losses weigh one minus it.")
          .at_least(0)
          .at_most(1)
          .on(kTrain)
          .also({"distillation_weight"}),
      real("temperature", "1", "Temperature of the teacher's and the model's logits.").above(0).on(kTrain),
      text("head_from", "NAME", "", "Tensor that a new head reads (default: chosen by rule and shown).")
          .on(kGraph | kData),
      choice("pooling", {"auto", "cls", "mean"}, "auto",
             "How a new head pools hidden states: first token or masked mean.")
          .on(kGraph | kData),
      choice("head", {"auto", "classification", "regression", "multilabel", "token", "span", "segmentation", "none"}, "auto",
             "A new head of this kind, whatever the model has; auto: one for --task when the model has none.")
          .same({{"tokens", "token"}, {"token_classification", "token"}, {"question_answering", "span"}})
          .on(in(Verb::train, Verb::check, Verb::plan)),
      text("cut_at", "NODE", "", "Drop everything behind this node or tensor, from the exported file too.")
          .on(in(Verb::train, Verb::check, Verb::plan))
          .also({"cut"}),
      whole("num_labels", "0",
            "Outputs of the head: a classifier of another size is replaced by a new one; 0: counted in the training data.")
          .at_least(0)
          .on(kGraph)
          .also({"num_classes", "class_num"}),
      real("dropout", "0.1", "Dropout in a new head and where the architecture had it (listed; check shows it); 0: none.")
          .at_least(0)
          .below(1)
          .on(in(Verb::train, Verb::check, Verb::plan))
          .also({"drop", "drop_rate"}),
      list("freeze", "GLOB", "Parameters that stay as they are (whole-name match; repeat the flag for more).")
          .on(kGraph),
      list("trainable", "GLOB", "Parameters to train whatever the discovery or --freeze says (repeatable).")
          .on(kGraph)
          .also({"unfreeze"}),
      whole("freeze_layers", "-1", "Freeze the embeddings and the first N encoder layers or stages; 0: the embeddings; -1: none.")
          .at_least(-1)
          .on(kGraph)
          .also({"freeze_n_layers"}),
      text("lora", "r=8,alpha=16,targets=GLOB", "",
           "Train low-rank adapters on the MatMul and Gemm weights that match (all without targets), the rest frozen; "
           "also dropout=P.")
          .on(kTrain),
      choice("tie_weights", {"auto", "none"}, "auto",
             "auto: equal-valued matrices, transposed copies included, are one weight.")
          .same({{"true", "auto"}, {"false", "none"}})
          .on(kGraph),
      choice("batchnorm", {"freeze", "train"}, "freeze",
             "BatchNorm: running statistics as they are, or batch statistics, by which the running ones move.")
          .same({{"frozen", "freeze"}})
          .on(kGraph)
          .also({"bn"}),
  };
}

std::vector<Flag> data_flags() {
  return {
      text("train", "FILE", "", "Training data: .csv, .tsv, .jsonl, or tensors in .safetensors, .npz.")
          .on(kTrain)
          .needed(kTrain)
          .also({"train_file"}),
      text("val", "FILE", "", "Validation data in the same format.")
          .on(in(Verb::train, Verb::eval))
          .also({"validation_file", "val_file", "eval_file", "dev"}),
      text("inputs", "FILE", "", "Tensors named by graph input, and label where a loss is asked.")
          .on(in(Verb::eval, Verb::predict, Verb::grad))
          .needed(in(Verb::predict, Verb::grad))
          .also({"input"}),
      list("text_columns", "NAME", "Column of the text; two for sentence pairs (A,B or the flag twice).")
          .by_commas()
          .on(kFeed)
          .also({"text_column_names", "text_column_name", "text_column"}),
      text("label_column", "NAME", "label", "Column of the label.").on(kFeed).also({"label_column_name"}),
      text("delimiter", "CHAR", "auto", "Field separator of text tables; auto: by file name.")
          .checked(normal_delimiter, "auto, tab, comma, semicolon, pipe, or one character")
          .on(kFeed),
      text("vocab", "FILE", "", "WordPiece vocabulary, one token a line.")
          .on(kText)
          .needed(only(Verb::tokenize))
          .also({"vocab_path", "vocab_file"}),
      toggle("lower_case", "true", "Lower-case and strip accents before tokenizing (uncased models).")
          .on(kText)
          .also({"do_lower_case"}),
      whole("max_seq_len", "128", "Longest sequence in tokens, special ones included; longer text is cut. 0: no limit.")
          .checked(normal_max_length, "0 (no limit), or 2 and more")
          .otherwise(Verb::tokenize, "0")
          .on(kText)
          .also({"max_seq_length", "max_length"}),
      whole("pad_to_multiple", "8", "Sequence length of a batch is rounded up to a multiple of this.")
          .at_least(1)
          .on(kFeed)
          .also({"pad_to_multiple_of"}),
      toggle("group_by_length", "true", "Put rows of similar length in a batch (less padding).").on(kTrain),
      toggle("shuffle", "true", "New order every epoch, from --seed.").on(kTrain).also({"shuffle_train_dataset"}),
  };
}

std::vector<Flag> precision_flags() {
  return {
      toggle("use_fp16", "false", "Mixed precision with float16 and loss scaling.").on(kPlanned).also({"fp16", "amp"}),
      toggle("use_bf16", "false", "Mixed precision with bfloat16.").on(kPlanned).also({"bf16"}),
      text("amp_level", "LEVEL", "O1", "Preset: O0 (all fp32), O1, O2, O3, pytorch, tensorflow, paddle, apex; auto: measured at the start of training.")
          .on(kPlanned)
          .also({"opt_level", "fp16_opt_level"}),
      text("precision_plan", "FILE", "",
           "Op-list JSON: what computes in which type, by operator, node, tensor or parameter.")
          .on(kPlanned)
          .also({"amp_config", "op_list"}),
      text("calibrate", "FILE", "",
           "Measure on this training data which nodes can run in 16 bits, and find the cheapest plan that stays accurate.")
          .on(only(Verb::plan)),
      whole("calibrate_batches", "4", "Batches to measure on: plan --calibrate, and --amp_level auto.")
          .at_least(1)
          .on(in(Verb::plan, Verb::train))
          .also({"batches"}),
      real("calibrate_rtol", "0",
           "Largest relative error of loss and gradients against fp32 that a plan may have; 0: 0.01 for fp16, 0.08 for bf16.")
          .at_least(0)
          .on(in(Verb::plan, Verb::train)),
      choice("format", {"auto", "text", "json", "dot", "html"}, "auto",
             "What plan writes; auto: by the extension of --out (.json, .dot, .html), a table without it.")
          .on(only(Verb::plan)),
      text("diff", "PLAN.json", "",
           "Compare this plan with another one, or with what a model would get now: plan --diff A.json B.json|MODEL.")
          .on(only(Verb::plan)),
      choice("dtype", {"fp32", "fp64", "fp16", "bf16"}, "fp32",
             "Type to compute in. fp16 and bf16 follow the precision plan.")
          .same(
              {{"float32", "fp32"}, {"float64", "fp64"}, {"float16", "fp16"}, {"bfloat16", "bf16"}, {"double", "fp64"}})
          .on(in(Verb::eval, Verb::predict, Verb::grad)),
  };
}

std::vector<Flag> scaling_flags() {
  return {
      text("loss_scale", "dynamic|X", "dynamic", "Loss scale: dynamic (also 0), or a fixed number.")
          .checked(normal_loss_scale, "dynamic (or 0), or a number above 0")
          .on(in(Verb::train, Verb::grad))
          .also({"loss_scaling"}),
      real("init_loss_scale", "65536", "First dynamic scale.")
          .above(0)
          .on(kTrain)
          .also({"init_loss_scaling", "init_scale"}),
      real("scale_growth_factor", "2", "Scale times this after enough good steps.")
          .above(1)
          .on(kTrain)
          .also({"growth_factor"}),
      real("scale_backoff_factor", "0.5", "Scale times this after an overflow.")
          .above(0)
          .below(1)
          .on(kTrain)
          .also({"backoff_factor"}),
      whole("scale_growth_interval", "2000", "Good steps in a row before the scale grows.")
          .at_least(1)
          .on(kTrain)
          .also({"growth_interval"}),
      real("min_loss_scale", "1", "The scale never falls below.").at_least(0).on(kTrain),
      real("max_loss_scale", "16777216", "The scale never grows above; inf for no bound.")
          .above(0)
          .or_infinity()
          .on(kTrain),
      whole("scale_hysteresis", "1", "Overflows before the scale falls.").at_least(1).on(kTrain),
      whole("max_consecutive_skips", "50", "Stop (exit 8) after so many skipped steps in a row; 0: never.")
          .at_least(0)
          .on(kTrain),
      text("inject_overflow", "STEPS", "", "Drill: put +inf into a real gradient at these attempted steps, e.g. 3,6-8.")
          .checked(normal_steps, "steps and ranges counted from 0, such as 3,6-8")
          .on(kTrain),
  };
}

std::vector<Flag> optimizer_flags() {
  return {
      choice("optimizer", {"sgd", "adam", "adamw"}, "adamw",
             "Update rule; adamw decays weights apart from the gradient.")
          .same({{"adamw_torch", "adamw"}, {"adamw_torch_fused", "adamw"}, {"adamw_hf", "adamw"}, {"momentum", "sgd"}})
          .on(kTrain)
          .also({"optim", "opt"}),
      real("lr", "5e-5", "Peak learning rate.").at_least(0).on(kTrain).also({"learning_rate"}),
      real("momentum", "0", "Momentum of sgd.").at_least(0).below(1).on(kTrain),
      toggle("nesterov", "false", "Nesterov momentum in sgd.").on(kTrain),
      real("adam_beta1", "0.9", "Decay of the first moment.").at_least(0).below(1).on(kTrain).also({"beta1"}),
      real("adam_beta2", "0.999", "Decay of the second moment.").at_least(0).below(1).on(kTrain).also({"beta2"}),
      real("adam_epsilon", "1e-8", "Added to the root of the second moment.")
          .above(0)
          .on(kTrain)
          .also({"epsilon", "adam_eps", "opt_eps"}),
      real("weight_decay", "0", "Weight decay.").at_least(0).on(kTrain),
      choice("decay_exclude", {"auto", "none"}, "auto", "auto: biases and normalisation weights are not decayed.")
          .on(kTrain),
      real("max_grad_norm", "1", "Clip gradients to this (after unscaling); 0: no clipping.")
          .at_least(0)
          .on(kTrain)
          .also({"clip_grad", "clip_grad_norm"}),
      choice("clip_mode", {"norm", "inf", "value"}, "norm", "What is clipped: 2-norm, largest element, each element.")
          .on(kTrain),
      real("ema_decay", "0", "Decay of the moving average of the weights; 0: none.")
          .at_least(0)
          .below(1)
          .on(kTrain)
          .also({"model_ema_decay", Alias("model_ema", "0.9998", "0")}),
  };
}

std::vector<Flag> schedule_flags() {
  return {
      real("epochs", "3", "Passes over the training data; may be fractional.")
          .at_least(0)
          .on(kTrain)
          .also({"num_train_epochs", "num_epochs", "epoch"}),
      whole("max_steps", "-1", "Attempted optimizer steps, skipped ones included; -1: by --epochs.")
          .at_least(-1)
          .on(kTrain),
      whole("batch_size", "8", "Rows of a micro-batch.")
          .at_least(1)
          .on(kFeed)
          .also({"per_device_train_batch_size", "train_batch_size", "b"}),
      whole("gradient_accumulation_steps", "1", "Micro-batches of one optimizer step.")
          .at_least(1)
          .on(kTrain)
          .also({"grad_accum_steps", "accumulation_steps"}),
      choice("lr_scheduler", {"linear", "cosine", "constant", "one_cycle"}, "linear",
             "Learning rate after the warm-up.")
          .same({{"linear_warmup_decay", "linear"}, {"constant_with_warmup", "constant"}, {"onecycle", "one_cycle"}})
          .on(kTrain)
          .also({"lr_scheduler_type", "sched"}),
      real("warmup_steps", "0", "Steps of rising learning rate: a whole number, or a fraction (below 1) of all steps.")
          .at_least(0)
          .on(kTrain)
          .also({Alias::fraction_of_one("warmup_ratio"), Alias::fraction_of_one("warmup_proportion")}),
  };
}

std::vector<Flag> evaluation_flags() {
  return {
      whole("eval_batch_size", "0", "Rows of an evaluation batch; 0: --batch_size.")
          .at_least(0)
          .on(kData)
          .also({"per_device_eval_batch_size", "validation_batch_size"}),
      whole("eval_steps", "0", "Evaluate every N steps as well as at the end of each epoch; 0: only there.")
          .at_least(0)
          .on(kTrain)
          .also({"validation_steps"}),
      choice("metric_for_best_model", metric_choices(), "auto", "What makes a model the best one; auto: by the task.")
          .same({{"eval_accuracy", "accuracy"}, {"eval_loss", "loss"}, {"f1", "macro_f1"}, {"eval_f1", "macro_f1"}})
          .on(kTrain)
          .also({"eval_metric"}),
      whole("early_stopping_patience", "0", "Stop after so many evaluations without a better one; 0: never.")
          .at_least(0)
          .on(kTrain),
      list("require", "METRIC>=X",
           "Quality gate on the final metrics: exit 12 when missed, e.g. accuracy>=0.85 (repeatable).")
          .checked(normal_gate, "a metric of the task (loss, accuracy, macro_f1, micro_f1, exact_match, miou, pearson ...), then >=, >, <= or <, then a number")
          .on(in(Verb::train, Verb::eval)),
  };
}

std::vector<Flag> checkpoint_flags() {
  return {
      text("output_dir", "DIR", "run", "Folder of the run: model.onnx, metrics.jsonl, run.json, checkpoints.")
          .on(kTrain)
          .also({"o", "checkpoints"}),
      text("out", "FILE", "", "File to write.")
          .on(in(Verb::predict, Verb::grad, Verb::export_model, Verb::check, Verb::plan))
          .needed(in(Verb::predict, Verb::grad, Verb::export_model)),
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
      toggle("overwrite", "false", "Start afresh in a folder that holds a run.")
          .on(kTrain)
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
      choice("export_precision", {"fp32", "fp16", "mixed"}, "fp32", "Types in the file; mixed: 16 bits where the plan computes so.")
          .same({{"float32", "fp32"}, {"float16", "fp16"}})
          .on(kExport),
      choice("export_weights", {"last", "best", "ema"}, "last", "Which weights of the run are exported.")
          .on(kExport)
          .also({Alias("load_best_model_at_end", "best", "last")}),
      choice("lora_export", {"merge", "keep"}, "merge", "Adapters in model.onnx: added into the weights, or nodes of their own.")
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
      whole("threads", "0", "CPU threads; 0: one for each core.").at_least(0).on(kRun).also({"num_threads"}),
      whole("seed", "42", "Seed of everything random.").at_least(0).on(kGraph).also({"random_seed"}),
      toggle("deterministic", "false", "Same bits for the same flags, also where that costs speed.")
          .on(kRun)
          .also({"full_determinism"}),
      toggle("dry_run", "false", "Everything up to the first step: import, plan, memory; trains nothing.").on(kTrain),
      toggle("profile", "false", "Time the operators of one training step and print the table first.").on(kTrain),
      toggle("json", "false", "Write the table as JSON.").on(in(Verb::check, Verb::plan)),
      text("config", "FILE", "", "JSON file of flags and values; a run.json too.").on(kAll).unrecorded().also({"c"}),
      toggle("quiet", "false", "Only warnings and the result.").on(kAll),
      toggle("verbose", "false", "More about what is decided and why.").on(kAll),
  };
}

}  // namespace

std::vector<Flag> make_flag_table() {
  std::vector<Flag> table;
  const auto add = [&](Group group, std::vector<Flag> flags) {
    for (Flag& f : flags) {
      f.group = group;
      table.push_back(std::move(f));
    }
  };
  add(Group::model, model_flags());
  add(Group::data, data_flags());
  add(Group::precision, precision_flags());
  add(Group::scaling, scaling_flags());
  add(Group::optimizer, optimizer_flags());
  add(Group::schedule, schedule_flags());
  add(Group::evaluation, evaluation_flags());
  add(Group::checkpoints, checkpoint_flags());
  add(Group::exporting, export_flags());
  add(Group::run, run_flags());
  return table;
}

}  // namespace amp::cli
