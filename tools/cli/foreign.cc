// Hints for flags of other trainers that have no counterpart here.
#include <array>

#include "tools/cli/flags.h"

namespace amp::cli {

static constexpr std::array kForeign{
    std::pair{"do_train", "giving --train is enough"},
    std::pair{"do_eval", "giving --val is enough"},
    std::pair{"do_predict", "use the verb 'predict'"},
    std::pair{"eval_strategy", "use --eval_steps N; evaluation at the end of each epoch comes with --val"},
    std::pair{"evaluation_strategy", "use --eval_steps N; evaluation at the end of each epoch comes with --val"},
    std::pair{"logging_strategy", "use --logging_steps N; metrics.jsonl has every step"},
    std::pair{"logging_dir", "metrics.jsonl in --output_dir has every step, --tensorboard writes event files there"},
    std::pair{"report_to",
              "--tensorboard writes event files; metrics.jsonl and run.json are made for other tools to read"},
    std::pair{"pad_to_max_length", "padding is to the longest row of a batch, rounded up to --pad_to_multiple"},
    std::pair{"train_sampling_strategy", "use --shuffle and --group_by_length"},
    std::pair{"disable_tqdm", "there is no progress bar unless on a terminal; --quiet removes it there"},
    std::pair{"half_precision_backend", "use --use_fp16 or --use_bf16"},
    std::pair{"amp_dtype", "use --use_fp16 or --use_bf16"},
    std::pair{"text_column_delimiter", "use --text_columns A --text_columns B for a pair; --delimiter is the file's"},
    std::pair{"auto_find_batch_size", "--dry_run says how much memory a batch needs"},
    std::pair{"fp16_full_eval", "evaluation follows the precision plan, as training does"},
    std::pair{"bf16_full_eval", "evaluation follows the precision plan, as training does"},
    std::pair{"run_name", "a run's name is its --output_dir"},
    std::pair{"logging_first_step", "metrics.jsonl has every step"},
    std::pair{"logging_nan_inf_filter", "metrics.jsonl has non-finite numbers as null"},
    std::pair{"log_level", "use --quiet or --verbose"},
    std::pair{"eval_on_start", "with --val it is done: run.json has the initial metrics"},
    std::pair{"eval_delay", "not built; use --eval_steps N"},
    std::pair{"greater_is_better", "known from the metric"},
    std::pair{"save_only_model", "checkpoints always resume; the model alone is model.onnx"},
    std::pair{"ignore_data_skip", "resuming costs no reading: it continues at the place in the data"},
    std::pair{"deterministic", "not needed: the same flags give the same bits, whatever the number of threads"},
    std::pair{"full_determinism", "not needed: the same flags give the same bits, whatever the number of threads"},
    std::pair{"data_seed", "use --seed: it is the seed of everything random"},
    std::pair{"shuffle_seed", "use --seed: it is the seed of everything random"},
    std::pair{"dataloader_drop_last", "not built: the last, smaller batch trains too"},
    std::pair{"dataloader_pin_memory", "not needed: batches are prefetched in the background"},
    std::pair{"dataloader_prefetch_factor", "not needed: batches are prefetched in the background"},
    std::pair{"dataloader_persistent_workers", "not needed: batches are prefetched in the background"},
    std::pair{"remove_unused_columns", "not needed: columns that no input asks for are ignored"},
    std::pair{"label_names", "use --label_column, or label=NAME in --loss"},
    std::pair{"length_column_name", "not needed: lengths are known after tokenizing"},
    std::pair{"local_rank", "not needed: mpirun, torchrun or srun says it; --ranks N trains in one process"},
    std::pair{"ddp_backend", "not needed: processes connect by MPI or TCP; --ranks N trains in one process"},
    std::pair{"neftune_noise_alpha", "not built"},
    std::pair{"debug", "an overflow is always found and named (E_DIVERGED)"},
    std::pair{"skip_memory_metrics", "metrics.jsonl has the memory of every step"},
    std::pair{"test_file", "use the verb 'eval' with --val FILE"},
    std::pair{"dataset_name", "use --train FILE and --val FILE"},
    std::pair{"config_name", "not needed: the ONNX file says all"},
    std::pair{"cache_dir", "not needed: nothing is downloaded or cached"},
    std::pair{"overwrite_cache", "not needed: nothing is cached"},
    std::pair{"preprocessing_num_workers", "use --threads"},
    std::pair{"ignore_mismatched_sizes", "--num_labels N replaces a classifier of another size"},
    std::pair{"bert_config_path", "not needed: the ONNX file says all"},
    std::pair{"init_checkpoint", "the weights are those of MODEL.onnx"},
    std::pair{"init_pretraining_params", "the weights are those of MODEL.onnx; or --compat paddle"},
    std::pair{"data_dir", "use --train FILE and --val FILE; or --compat paddle"},
    std::pair{"do_val", "giving --val is enough; or --compat paddle"},
    std::pair{"do_test", "use the verb 'eval'; or --compat paddle"},
    std::pair{"use_fast_executor", "not needed"},
    std::pair{"pretrained", "the weights are those of MODEL.onnx"},
    std::pair{"initial_checkpoint", "the weights are those of MODEL.onnx"},
    std::pair{"opt_betas", "use --adam_beta1 and --adam_beta2, or timm's args.yaml itself as --config"},
    std::pair{"warmup_epochs",
              "use --warmup_steps (below 1: the share of all steps), or --lr_scheduler timm_cosine "
              "--lr_scheduler_kwargs warmup_epochs=5"},
    std::pair{"warmup_lr", "use --lr_scheduler timm_cosine --lr_scheduler_kwargs warmup_lr=1e-5; others start at 0"},
    std::pair{"min_lr", "use --lr_scheduler cosine_with_min_lr or timm_cosine, --lr_scheduler_kwargs min_lr=1e-5"},
    std::pair{
        "img_size",
        "say it by --transforms and --eval_transforms: resize 256 | center_crop 224; auto goes by the model's input"},
    std::pair{
        "input_size",
        "say it by --transforms and --eval_transforms: resize 256 | center_crop 224; auto goes by the model's input"},
    std::pair{"aspect_ratio_buckets", "use --image_sizes 672x1568,1024x1024,1568x672"},
    std::pair{"aa", "say it by --transforms: rand_augment, trivial_augment"},
    std::pair{"hflip", "say it by --transforms: horizontal_flip"},
    std::pair{"drop_path", "not built; --dropout P is dropout where the architecture had it"},
    std::pair{"bn_momentum", "the momentum is the ONNX operator's own, in the file"},
    std::pair{"channels_last", "not needed: kernels choose their layout"},
    std::pair{"pin_mem", "not needed: batches are prefetched in the background"},
    std::pair{"log_wandb", "metrics.jsonl and run.json in --output_dir are made for other tools to read"},
    std::pair{"experiment", "a run's name is its --output_dir"},
    std::pair{"low_precision_type", "use --use_fp16 or --use_bf16"},
    std::pair{"nodes_to_exclude", "write rules in --precision_plan FILE"},
    std::pair{"op_types_to_exclude", "write the op-list in --precision_plan FILE"},
    std::pair{"nodes_to_include", "write rules in --precision_plan FILE"},
    std::pair{"op_types_to_include", "write the op-list in --precision_plan FILE"},
    std::pair{"keep_io_types", "always so: inputs and outputs keep their types"},
    std::pair{"dump_plan", "every run writes precision_plan.json; the verb 'plan' shows it without a run"},
    std::pair{"export", "every run writes model.onnx to --output_dir; the verb 'export' writes it elsewhere"},
};

std::string hint_for_foreign_flag(std::string_view name) {
  const std::string key = snake_case(name);
  for (const auto& [foreign, hint] : kForeign) {
    if (key == foreign) return hint;
  }
  return {};
}

}  // namespace amp::cli
