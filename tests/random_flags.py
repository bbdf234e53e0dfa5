"""Flags from which tests/random_runs.py chooses at random, with their values."""

OPTIMIZERS = ("sgd adam adamw adamax nadam nadamw radam radamw adagrad adadelta rmsprop rmsprop_tf lion lamb lars adahessian sophia_h "
              "sophia_g schedule_free_adamw adafactor adamp sgdp muon").replace(" ", "|")
SCHEDULES = ("linear cosine cosine_with_restarts cosine_with_min_lr polynomial constant constant_with_warmup inverse_sqrt "
             "warmup_stable_decay one_cycle step multistep exponential noam reduce_lr_on_plateau timm_cosine timm_poly timm_tanh "
             "timm_wsd timm_rsqrt timm_step timm_multistep").replace(" ", "|")
# Groups of flags that are chosen together, with the values of each flag, for each kind of source.
FLAGS = {
    "any": [
        "optimizer " + OPTIMIZERS, "optimizer " + OPTIMIZERS + " lr 1e-5|1e-4|1e-3|1e-2", "lr_scheduler " + SCHEDULES, "warmup_steps 1|0.5",
        "batch_size 1|2|3|5|64", "batch_size 1|2|3 gradient_accumulation_steps 2|3", "max_grad_norm 0|0.1", "clip_mode norm|inf|value|agc",
        "ema_decay 0.9|0.9,0.99 ema_every 1|2 ema_warmup true|false export_weights ema|last", "swa_start 1|0.5 swa_lr 1e-4|-1",
        "lookahead 2", "sam_rho 0.05", "gradient_centralization true", "gradient_noise 0.01", "optim_bits 8", "freeze *bias*|*1*|*0*",
        "trainable *", "lora r=2|r=4,alpha=8,dropout=0.1|r=2,dora=true|r=2,init=pissa,lr_ratio=4 lora_export keep|merge", "dropout 0|0.3", "batchnorm train|freeze",
        "tie_weights auto|none|file", "weight_decay 0.1", "param_group *bias*:lr_scale=2|*:weight_decay=0.1",
        "save_strategy auto|epoch|steps|no save_steps 0|1|2 save_total_limit 0|1|2", "eval_batch_size 1|3|64", "export_precision fp32|fp16|mixed",
        "export_precision fp32|fp16|mixed", "verify_export true|false", "remove_padding true|false", "skip_unlabeled true|false", "fusion false",
        "ranks 2|3 shard_optimizer true|false overlap_grad_reduce true|false grad_reduce_dtype fp32|fp16|bf16", "ranks 2 sync_every 2",
        "gradient_checkpointing true", "memory_budget 64MB|8MB", "tensorboard true", "loss_scale 1|1024", "init_loss_scale 16|16777216",
        "profile true", "weighted_sampling true", "shuffle false", "limit_train 1|5", "lr_range_test 3", "train_quantized true",
        "straight_through false", "epochs 1|0.5", "tf32 true", "threads 2", "calibrate_batches 1", "json true",
        "quiet true|false", "trace trace.json", "seed 7", "logging_steps 1",
    ],
    "validated": ["eval_steps 1|2", "metric_for_best_model loss|auto early_stopping_patience 0|1", "limit_val 1", "export_weights best"],
    "text": ["group_by_length false", "in_tokens true batch_size 64|200", "pooling mean|max|cls", "pad_to_multiple 1|16", "max_seq_len 8|16",
             "layer_decay 0.8", "gradual_unfreezing 1", "freeze_layers 0|1", "freeze *embed*"],
    "language": ["packing none|stride|wrapped|bfd doc_stride 4", "sample true top_k 3", "max_new_tokens 1|9", "append_eos true|false"],
    "image": ["mixup 0.2|0", "cutmix 1", "image_layout auto|nchw"],
    "table": ["target_transform standard|log1p", "feature_scaling quantiles|none", "export_raw_rows true", "fill_missing mean"],
    "decoder": ["lora r=4,alpha=8|r=2,targets=attention|r=2,dora=true lora_export keep|merge|slots|adapter|peft"],
    "classes": ["label_smoothing 0.1", "num_labels 3|7"],
}
