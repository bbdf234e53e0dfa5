#!/usr/bin/env bash
# Runs every recipe for a few steps, as in a new clone, but with the given program, a small sentence model and a small decoder
# with random weights. Each recipe must train in fp32 and in bf16, export, and print its table.
#   tests/recipes/test.sh PROGRAM FOLDER [RECIPE ...]
set -euo pipefail
cd "$(dirname "$0")/../.."
export ONNX_AMP_PROGRAM=$1 RECIPE_OUT=$2 RECIPE_MINILM=$2/minilm.onnx
# The small decoder takes 256 tokens, so chat_lora reads questions about short texts.
export RECIPE_DECODER=tests/data/llm/llama-int4 RECIPE_LONGEST=90
shift 2
rm -rf "$RECIPE_OUT"
mkdir -p "$RECIPE_OUT/questions"
for part in train dev; do cp tests/data/data/questions.json "$RECIPE_OUT/questions/tydiqa.goldp.en.$part.json"; done
"$ONNX_AMP_PROGRAM" create bert --model_head none --out "$RECIPE_MINILM" --model_config \
  '{"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 64}' 2>/dev/null

failed=0
[ $# -gt 0 ] || set -- $(cd models && ls -d */run.sh | cut -d/ -f1)
for name in "$@"; do
  log=$RECIPE_OUT/$name.log
  more=()
  [ "$name" != chat_lora ] || more=(--full "$RECIPE_OUT/questions")
  if models/"$name"/run.sh --max_steps 3 --limit_val 24 --warmup_steps 0 ${more[@]+"${more[@]}"} >"$log" 2>&1 &&
    [ "$(find "$RECIPE_OUT/$name" -path '*/fp32*/model.onnx' | wc -l)" -gt 0 ] &&
    [ "$(find "$RECIPE_OUT/$name" -path '*/fp32*/model.onnx' | wc -l)" = "$(find "$RECIPE_OUT/$name" -path '*/bf16*/model.onnx' | wc -l)" ] &&
    grep -Eq '^[a-z0-9_/]*bf16 .*bfloat16 .*[0-9*] *$' "$log"; then
    echo "$name: ok"
  else
    echo "$name: FAILED"
    tail -40 "$log"
    failed=1
  fi
done
exit $failed
