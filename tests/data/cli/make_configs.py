"""Writes training_args.json in the form in which Hugging Face's TrainingArguments save themselves, and args.yaml and
sgd.yaml as timm's train.py writes its arguments. Needs transformers, accelerate, PyYAML, and timm's repository:

    make_configs.py FOLDER_OF_TIMM
"""

import re
import sys
from pathlib import Path

import yaml
from transformers import TrainingArguments

HERE = Path(__file__).parent


def hugging_face():
    args = TrainingArguments(output_dir="out", learning_rate=3e-5, per_device_train_batch_size=16, num_train_epochs=2,
                             warmup_steps=0.1, weight_decay=0.01, lr_scheduler_type="cosine_with_min_lr",
                             lr_scheduler_kwargs={"min_lr": 1e-6}, label_smoothing_factor=0.1, eval_strategy="steps",
                             eval_steps=50, save_strategy="steps", save_steps=100, load_best_model_at_end=True,
                             metric_for_best_model="eval_accuracy", gradient_accumulation_steps=2, save_total_limit=2,
                             train_sampling_strategy="group_by_length", neftune_noise_alpha=5, use_cpu=True, seed=7)  # fmt: skip
    text = args.to_json_string()
    (HERE / "training_args.json").write_text(re.sub(r'"(logging_dir|run_name)": "[^"]*"', r'"\1": "out"', text) + "\n")


def timm(folder, name, command):
    source = (Path(folder) / "train.py").read_text()
    # Returns the part of the script that defines and reads its argument parsers.
    start = source.index("config_parser = parser = argparse.ArgumentParser")
    end = source.index("def _parse_args()")
    end = source.index("\ndef ", end + 1)
    scope = {"__name__": "parsers"}
    exec("import argparse, yaml\nfrom timm import utils\n" + source[start:end], scope)
    sys.argv = ["train.py", *command.split()]
    _, text = scope["_parse_args"]()
    (HERE / name).write_text(text)


if __name__ == "__main__":
    hugging_face()
    where = sys.argv[1]
    timm(where, "args.yaml", "data --model vit_small_patch16_224 --opt adamw --opt-betas 0.9 0.95 --lr-base 1e-3 "
         "-b 64 --grad-accum-steps 4 --weight-decay 0.05 --layer-decay 0.75 --clip-grad 1 --sched-on-updates "
         "--warmup-epochs 3 --warmup-lr 1e-6 --min-lr 1e-5 --epochs 20 --cooldown-epochs 2 --amp --amp-dtype bfloat16 "
         "--model-ema --model-ema-decay 0.999 --smoothing 0.2 --mixup 0.2 --seed 3 --num-classes 10")  # fmt: skip
    timm(where, "sgd.yaml", "data --lr 0.05 --sched step --decay-epochs 2.4 --decay-rate 0.97 --epochs 9 --bce-loss "
         "--opt-kwargs dampening=0.0")  # fmt: skip
