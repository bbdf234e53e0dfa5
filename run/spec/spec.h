// run: fine-tuning as a library. A RunSpec says what is wanted; run/run.h does it. The command line (tools/) makes a
// RunSpec from flags and prints what comes back; other programs fill one in themselves.
//
// This file: RunSpec, plain data. A member bears its setting's name, the same on the command line, in JSON and in
// run.json. run/settings/settings.h lists them all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace amp {

// A default that gives way to a precision plan, or to what a model says of its training: assigning makes it asked for.
template <class T>
class Default {
 public:
  explicit Default(T value) : value_(std::move(value)) {}
  Default& operator=(T value) {
    value_ = std::move(value);
    asked_ = true;
    return *this;
  }
  void suggest(T value) {  // another default
    if (!asked_) value_ = std::move(value);
  }
  bool asked() const { return asked_; }
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_;
  bool asked_ = false;
};

struct RunSpec {
  using Text = std::string;
  using Texts = std::vector<std::string>;
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  // Model, head and loss
  Text model;  // the ONNX file
  Default<Text> task{"auto"};
  Default<Texts> loss{{}};  // docs/losses.md; empty: the task's, the model's own, or cross_entropy
  double label_smoothing = 0;
  Text output;
  Text teacher;
  double teacher_weight = 0.5, temperature = 1;
  Text head_from, pooling = "auto", head = "auto", cut_at;
  int64_t num_labels = 0;
  Default<double> dropout{0.1};
  Texts freeze, trainable;
  int64_t freeze_layers = -1;
  Text lora;
  Text tie_weights = "auto", batchnorm = "freeze";
  bool sync_bn = false, overlap_grad_reduce = true;
  Text grad_reduce_dtype = "fp32", grad_reduce_trace;
  int64_t sync_every = 1;  // steps
  bool train_quantized = false, straight_through = true;

  // Data
  Text train, val;
  Default<Texts> text_columns{{}};
  Default<Text> label_column{"label"};
  Texts label_map;            // "OLD=NEW"
  Default<Texts> labels{{}};  // of the classes, in the order of the outputs; empty: data/class_order.h
  Texts val_text_columns;     // empty: text_columns
  Text val_label_column;      // empty: label_column
  Text delimiter = "auto", data_format = "auto", tokenizer, vocab, chat_template;
  Default<bool> lower_case{true};
  Default<int64_t> max_seq_len{128}, doc_stride{32}, max_answer_length{30};
  Default<bool> version_2_with_negative{false};  // SQuAD 2.0
  Default<double> null_score_diff_threshold{0};
  int64_t n_best_size = 1, top_k = 5;
  Default<Text> packing{"none"}, train_on{"answers"}, append_eos{"auto"};  // of texts for language models
  Default<Text> source_prefix{""}, decoder_start_token{"auto"};            // of encoder-decoder models
  Default<int64_t> max_target_length{0};
  Default<double> mlm_probability{0.15};
  Default<bool> whole_word_mask{false};
  int64_t pad_to_multiple = 8;
  bool group_by_length = true, shuffle = true, weighted_sampling = false, in_tokens = false;
  double val_split = 0;                    // share of the training data to validate on
  int64_t limit_train = 0, limit_val = 0;  // samples; 0: all
  Text limit_order = "sample";             // which samples a limit keeps: drawn by seed, or the first
  Text decimal = "auto";                   // numbers of text tables: point, comma
  bool trim_labels = true;                 // drop spaces around labels

  // Images
  Default<Text> image_column{""};  // of a table of image files; empty: tables hold text
  Text image_root;                 // folder of a table's paths; empty: the table's own
  Text train_masks, val_masks;     // folders of masks
  Text train_labels, val_labels;   // files of labels of IDX images; empty: found beside them
  Default<Texts> mask_values{{}};
  Default<int64_t> mask_ignore{255};
  Default<Text> transforms{"auto"}, eval_transforms{"auto"};
  Default<Texts> image_sizes{{}};  // "192x256"; empty: the transforms' one
  Text image_layout = "auto";
  int64_t loading_threads = 0;   // 0: as many as compute
  double mixup = 0, cutmix = 0;  // alpha; 0: not done
  double mixup_prob = 1, mixup_switch_prob = 0.5;
  int64_t mixup_off_epoch = 0;

  // Tables of features
  Default<Texts> categorical{{}}, continuous{{}}, date{{}}, join{{}};
  Default<Text> target{""};  // empty: label_column
  Default<Text> target_transform{"none"};
  Text fill_missing = "median", feature_scaling = "standard";

  // Precision and loss scale
  Default<bool> use_fp16{false}, use_bf16{false};
  Default<Text> amp_level{"O1"};
  Text precision_plan;
  int64_t calibrate_batches = 4;
  double calibrate_rtol = 0;
  Text dtype = "fp32";  // of evaluation, prediction and gradients: fp32, fp64, fp16, bf16
  Default<Text> loss_scale{"dynamic"};
  Default<double> init_loss_scale{65536}, scale_growth_factor{2}, scale_backoff_factor{0.5};
  Default<int64_t> scale_growth_interval{2000};
  Default<double> min_loss_scale{1}, max_loss_scale{16777216};
  Default<int64_t> scale_hysteresis{1};
  int64_t max_consecutive_skips = 50;
  Text inject_overflow;

  // Optimizer, schedule and batches
  Text optimizer = "adamw";
  Text optim_args;  // "key=value,...": docs/optimizers.md
  double lr = 5e-5, momentum = 0;
  Text lr_base_scale = "none";
  int64_t lr_base_size = 256;  // samples a step
  bool nesterov = false;
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;
  double weight_decay = 0;
  Text decay_exclude = "auto";
  Texts param_group;               // "GLOB: lr=1e-5, weight_decay=0": docs/optimizers.md
  double layer_decay = 1;          // 1: none
  int64_t gradual_unfreezing = 0;  // applied steps from one layer to the next; 0: none
  double max_grad_norm = 1;
  Text clip_mode = "norm";
  Texts ema_decay{"0"};   // at most four numbers; 0: none
  int64_t ema_every = 1;  // applied steps
  bool ema_warmup = false;
  double swa_start = -1;  // applied steps, or a fraction of the run; -1: none
  double swa_lr = -1;     // -1: the schedule goes on
  int64_t swa_anneal_steps = 10;
  std::string swa_anneal_strategy = "cos";
  double gradient_noise = 0;  // eta; 0: none
  int64_t lookahead = 0;      // steps; 0: none
  double lookahead_alpha = 0.5;
  double sam_rho = 0;  // 0: none
  bool gradient_centralization = false;
  int64_t optim_bits = 32;
  bool shard_optimizer = false;
  double epochs = 3;
  int64_t max_steps = -1;
  double max_minutes = 0;  // 0: no limit
  int64_t batch_size = 8, gradient_accumulation_steps = 1;
  bool gradient_cache = false;
  Text lr_scheduler = "linear";
  Text lr_scheduler_kwargs;  // "key=value,..."
  double warmup_steps = 0;
  int64_t lr_range_test = 0;  // steps; 0: train

  // Evaluation and gates
  int64_t eval_batch_size = 0;  // 0: batch_size
  int64_t eval_steps = 0;
  Text eval_group_by;  // column of the validation data; empty: none
  Text metric_for_best_model = "auto";
  int64_t early_stopping_patience = 0;
  double early_stopping_threshold = 0;
  Texts require;  // "accuracy>=0.85"

  // The run's folder, and the exported model
  Text output_dir = "run";
  Text save_strategy = "auto";
  int64_t save_steps = 0, save_total_limit = 2;
  Text resume = "none", resume_schedule = "auto";
  bool overwrite = false;
  int64_t logging_steps = 50;
  bool tensorboard = false;
  Text serve = "off";                      // a port of 127.0.0.1; 0: a free one
  Default<Text> export_precision{"fp32"};  // not asked for: the file's own types (export_types())
  Text export_weights = "last", lora_export = "merge";
  bool export_raw_rows = false;  // of a table: nodes in front of the model
  bool verify_export = true;

  // Running
  Text device = "auto";
  std::string gpus;  // "0,2": of the ranks of this machine; empty: by their number
  bool remove_padding = true, tf32 = false, fusion = true;
  int64_t threads = 0;
  int64_t ranks = 1;  // replicas in this process; of several processes, how many there are
  double heartbeat = 15;
  std::string memory_budget;  // of a training run, in bytes; empty: as much as it takes
  bool gradient_checkpointing = false;
  int64_t max_graph_nodes = 200000, max_activation_bytes = 0, max_constant_bytes = 67108864, in_memory_max_size = 0;
  int64_t seed = 42;
  bool profile = false;

  // Where settings came from, for run.json: {"lr", "command line"}. May be empty.
  std::map<std::string, std::string> sources;

  // ExportOptions::precision: "file" keeps the types that the file has, which fp32 does only when it is asked for.
  Text export_types() const { return export_precision.asked() ? *export_precision : "file"; }

  int64_t evaluation_rows() const {
    if (eval_batch_size > 0) return eval_batch_size;
    if (!in_tokens) return batch_size;
    return *max_seq_len > 0 ? std::max<int64_t>(1, batch_size / *max_seq_len) : 8;  // as many as batch_size holds
  }
};

}  // namespace amp
