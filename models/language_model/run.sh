#!/usr/bin/env bash
# Trains a small GPT-2 from random weights on plain text.
#   models/language_model/run.sh                    paragraphs of Wikipedia, in this folder
#   models/language_model/run.sh --full DATA_DIR    DATA_DIR has train.txt and dev.txt, one text per line
# Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

data=${full:-$here/sample}
"$program" create gpt2 --out "$out/gpt2.onnx" --model_config "$here/model.json"
train "$out/gpt2.onnx" --train "$data/train.txt" --val "$data/dev.txt" --tokenizer "$here"
table
for precision in $precisions; do
  printf '\n== a text drawn from %s\n' "$out/$precision"
  "$program" generate "$out/$precision" --prompt "The city" --sample --max_new_tokens 60 --tokenizer "$here"
done
