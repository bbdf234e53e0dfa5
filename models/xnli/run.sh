#!/usr/bin/env bash
# Trains on sentence pairs in the layout of XNLI with the command line of PaddlePaddle's BERT, and prints the accuracy
# for each language.
#   models/xnli/run.sh                    generated pairs of this folder (make_sample.py): trains on English, tests on German,
#                                         English, Spanish and French
#   models/xnli/run.sh --full DATA_DIR    all of XNLI in PaddlePaddle's layout (multinli/, xnli.dev.tsv, xnli.test.tsv), or one
#                                         file per language; without training files it trains on the development sets
# MODEL=bert.onnx VOCAB=vocab.txt models/xnli/run.sh uses another model. Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

model=${MODEL:-} val=true
[ -n "$model" ] || minilm
data=${full:-$here/sample}
if ! compgen -G "$data/multinli/*" >/dev/null && ! compgen -G "$data/train-*.tsv" >/dev/null; then
  rm -rf "$out/data"
  mkdir -p "$out/data"
  for file in "$data"/dev-*.tsv; do ln -s "$file" "$out/data/train-${file##*/dev-}"; done
  for file in "$data"/test-*.tsv; do ln -s "$file" "$out/data/"; done
  data=$out/data val=false
fi
for precision in $precisions; do
  amp=(--use_fp16=false)
  [ "$precision" != fp16 ] || amp=(--use_fp16=true)
  [ "$precision" != bf16 ] || amp+=(--use_bf16)
  printf '\n== xnli, %s\n' "$precision"
  "$program" --compat paddle --config "$here/config.json" \
    --task_name XNLI "${amp[@]}" --do_train true --do_val $val --do_test true \
    --batch_size 32 --in_tokens false --init_pretraining_params "$model" --data_dir "$data" \
    --vocab_path "${VOCAB:-models/tweet_sentiment/vocab.txt}" --checkpoints "$out/$precision" --save_steps 1000 \
    --weight_decay 0.01 --warmup_proportion 0.1 --validation_steps 100 --epoch 3 --max_seq_len 128 \
    --learning_rate 5e-5 --skip_steps 10 --verbose true \
    --overwrite ${flags[@]+"${flags[@]}"}
done
table
