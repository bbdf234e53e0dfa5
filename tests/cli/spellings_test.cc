// Spellings that users of other trainers write: they are accepted, or the error names the spelling to use.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "tests/cli/cli_helper.h"
#include "tools/cli/flags.h"

using namespace amp;
using namespace amp::cli;

namespace {

// Flags of Hugging Face's TrainingArguments and its task scripts.
const char* const kHuggingFace =
    "output_dir per_device_train_batch_size per_device_eval_batch_size num_train_epochs max_steps learning_rate "
    "lr_scheduler_type lr_scheduler_kwargs warmup_steps warmup_ratio optim optim_args weight_decay adam_beta1 "
    "adam_beta2 "
    "adam_epsilon gradient_accumulation_steps max_grad_norm label_smoothing_factor fp16 bf16 fp16_full_eval "
    "bf16_full_eval tf32 gradient_checkpointing neftune_noise_alpha auto_find_batch_size logging_strategy "
    "logging_steps "
    "logging_first_step logging_nan_inf_filter log_level disable_tqdm report_to run_name eval_strategy eval_steps "
    "eval_delay eval_on_start save_strategy save_steps save_total_limit save_only_model load_best_model_at_end "
    "metric_for_best_model greater_is_better ignore_data_skip full_determinism seed data_seed use_cpu "
    "dataloader_drop_last dataloader_num_workers dataloader_pin_memory dataloader_prefetch_factor "
    "dataloader_persistent_workers remove_unused_columns label_names train_sampling_strategy group_by_length "
    "length_column_name ddp_backend debug skip_memory_metrics do_train do_eval do_predict resume_from_checkpoint "
    "local_rank evaluation_strategy no_cuda overwrite_output_dir logging_dir fp16_opt_level half_precision_backend "
    "train_file validation_file test_file text_column_names text_column_delimiter label_column_name do_regression "
    "metric_name max_seq_length pad_to_max_length shuffle_train_dataset shuffle_seed max_train_samples "
    "max_eval_samples "
    "overwrite_cache preprocessing_num_workers model_name_or_path tokenizer_name config_name cache_dir "
    "ignore_mismatched_sizes task_name dataset_name text_column_name early_stopping_patience "
    "early_stopping_threshold";
const char* const kPaddle =
    "bert_config_path init_checkpoint init_pretraining_params checkpoints epoch learning_rate lr_scheduler "
    "weight_decay "
    "warmup_proportion save_steps validation_steps use_fp16 loss_scaling skip_steps verbose data_dir vocab_path "
    "max_seq_len batch_size in_tokens do_lower_case random_seed use_cuda use_fast_executor task_name do_train do_val "
    "do_test init_loss_scaling";
const char* const kTimm =
    "c pretrained initial_checkpoint resume num_classes img_size input_size b vb channels_last grad_accum_steps "
    "grad_checkpointing opt opt_eps opt_betas momentum weight_decay clip_grad clip_mode layer_decay sched lr warmup_lr "
    "min_lr epochs warmup_epochs hflip aa mixup cutmix smoothing bce_loss drop drop_path bn_momentum model_ema "
    "model_ema_decay seed log_interval checkpoint_hist amp amp_dtype pin_mem eval_metric experiment log_wandb";
const char* const kOthers =
    "onnx_path output_path low_precision_type calibration_data nodes_to_exclude op_types_to_exclude nodes_to_include "
    "op_types_to_include keep_io_types opt_level loss_scale min_loss_scale max_loss_scale growth_factor backoff_factor "
    "growth_interval init_scale amp_config dump_plan unfreeze export gpus update_freq";

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == ' ') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

}  // namespace

TEST_CASE("every flag of the trainers that people come from is understood or answered", "[cli]") {
  size_t understood = 0, answered = 0;
  for (const char* list : {kHuggingFace, kPaddle, kTimm, kOthers}) {
    for (const std::string& word : words(list)) {
      INFO(word);
      const bool known = find_flag(word).has_value(), hint = !hint_for_foreign_flag(word).empty();
      CHECK(known != hint);  // a hint for a known flag would never be shown
      understood += known;
      answered += hint;
    }
  }
  CHECK(understood > 85);
  CHECK(answered > 70);
  CHECK_FALSE(find_flag("no_such_flag"));
}

TEST_CASE("no spelling stands for two flags", "[cli]") {
  std::set<std::string_view> seen;
  for (const Flag& f : flags()) {
    INFO(f.name);
    CHECK(seen.insert(f.name).second);
    for (const OtherName& a : f.other_names) {
      INFO(a.name);
      CHECK(seen.insert(a.name).second);
    }
  }
}

TEST_CASE("spellings that carry a value of their own", "[cli]") {
  CHECK(train({"--label_smoothing_factor", "0.1"}).num("label_smoothing") == 0.1);
  CHECK(train({"--smoothing", "0.2"}).num("label_smoothing") == 0.2);
  CHECK(train({"--task_name", "NER"}).str("task") == "token");
  CHECK(train({"--task_name", "mrpc"}).str("task") == "classification");
  CHECK(train({"--do_regression"}).str("task") == "regression");
  CHECK(train({"--bce_loss"}).list("loss") == std::vector<std::string>{"bce_logits"});
  CHECK(train({"--eval-metric", "top1", "--val", "v"}).str("metric_for_best_model") == "accuracy");
  CHECK(train({"-vb", "7"}).integer("eval_batch_size") == 7);
  CHECK(mentions(train_refusal({"--label_smoothing", "1"}), {"--label_smoothing 1", "below 1"}));
  CHECK(mentions(train_refusal({"--min-lr", "0"}), {"unknown flag --min-lr", "cosine_with_min_lr"}));
}
