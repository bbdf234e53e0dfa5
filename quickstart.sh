#!/usr/bin/env bash
# Builds the program, downloads a pretrained sentence model, fine-tunes it in mixed precision on tweets, and exports it.
# Works on an empty Debian 12. Arguments are passed to the program: ./quickstart.sh --use_bf16=false --epochs 2
set -euo pipefail
cd "$(dirname "$0")"

./cmake/build_program.sh
model=$(./cmake/fetch_minilm.sh | tail -1)

data=models/tweet_sentiment
./build/onnx-amp-finetune "$model" --use_fp16 \
  --train $data/train.csv --val $data/dev.csv --vocab $data/vocab.txt --text_columns text --label_column sentiment \
  --batch_size 32 --lr 1e-4 --epochs 1 --warmup_steps 0.1 --weight_decay 0.01 \
  --output_dir runs/quickstart --overwrite "$@"
